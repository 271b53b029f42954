#!/usr/bin/env python3
"""Writes api_calls.h for test_api.c: calls of every public function that pass NULL.

    api_calls.py OUT HEADER...

The rule is in include/tachy/common.h. The comment above a function says "`name` may be NULL" of
each parameter that may be; a log always may. A function whose parameters this script cannot fill
in is an error, so a new header needs no new test.
"""
import re
import sys

ENDINGS = ('_close', '_free', '_unref', '_leave')  # of functions that take a pointer to the pointer


class Function:
    def __init__(self, result, name, params, comment):
        self.result, self.name, self.comment = result, name, comment
        self.params = [Param(p) for p in split(params)] if params != 'void' else []
        may = set()
        for m in re.finditer(r'((?:`\w+`(?:, | and )?)+) (?:each )?may be NULL', comment):
            may.update(re.findall(r'\w+', m.group(1).replace(' and ', ' ')))
        for p in self.params:
            p.required = p.pointer and not p.log and p.name not in may
        self.ends = bool(self.params) and self.params[0].levels == 2 and name.endswith(ENDINGS)
        if self.ends:
            self.params[0].required = False


class Param:
    def __init__(self, text):
        m = re.match(r'^(.*?)(\w+)((?:\[\w*\])*)$', text.strip(), re.S)
        self.kind, self.name, self.array = m.group(1).strip(), m.group(2), m.group(3)
        self.levels = self.kind.count('*') + bool(self.array)
        self.pointer = self.levels > 0
        self.log = 'struct tachy_log' in self.kind
        self.outer = not self.array and self.levels > 1  # gets a pointer
        self.const = self.kind.startswith('const ')
        self.base = re.sub(r'\bconst\b|\*', '', self.kind).strip()


def split(params):
    return [p for p in params.split(',') if p.strip()]


def functions(text):
    """Each prototype with its comment: what stands above its group, and on its own lines."""
    above, proto, own, last = '', '', '', ''
    for line in text.splitlines():
        code, _, words = line.partition('//')
        if proto or code.startswith('TACHY_API'):
            proto, own, last = proto + ' ' + code.strip(), own + ' ' + words.strip(), 'code'
            if ';' in code:
                m = re.match(r'TACHY_API (.*?)\s*(tachy_\w+)\((.*)\);', ' '.join(proto.split()))
                # For a function with size arguments, calls the macro that adds them.
                params = re.sub(r'^(size_t \w+_size, )+', '', m.group(3)) if m.group(2).endswith('_sized') else m.group(3)
                yield Function(m.group(1), m.group(2).removesuffix('_sized'), params, above + own)
                proto, own = '', ''
        elif code.strip() or not words:
            above, last = '', 'code'
        else:
            above = (above if last == 'comment' else '') + ' ' + words.strip()
            last = 'comment'


def structs(text):
    """Names of structs with a log, and of those with a field that is required in any case."""
    logs, needs = set(), set()
    for m in re.finditer(r'^struct (tachy_\w+) \{(.*?)^\}', text, re.S | re.M):
        if 'struct tachy_log *log' in m.group(2):
            logs.add(m.group(1))
        if re.search(r'// (.*; )?required(;|:|,|$)', m.group(2), re.M):
            needs.add(m.group(1))
    return logs, needs


class Writer:
    def __init__(self, protos, opaque, logs, needs):
        self.protos, self.opaque, self.logs, self.needs = protos, opaque, logs, needs
        self.handles, self.given, self.lines = set(), set(), []
        opens = [f for f in protos if f.name.endswith(('_open', '_new')) and f.params]
        # Objects that were given a log when they were made.
        self.logging = {f.params[0].base for f in opens for p in f.params[1:]
                        if p.log or p.base.removeprefix('struct ') in logs}

    def value(self, f, i, local):
        """An argument that is sound; declares what it needs in `local`."""
        p = f.params[i]
        struct = p.base.removeprefix('struct ')
        if p.log:
            return '&api.log'
        if not p.pointer:
            return f'({p.base}){{0}}' if p.base.startswith('struct') else '0'
        if p.base in self.opaque and p.levels == 1:
            self.handles.add(p.base)
            return f'api.{p.base}'
        if p.base.startswith('struct') and p.levels == 1 and not p.array and p.const:
            self.given.add(struct)
            return f'&api.given_{struct}'
        if p.base == 'char' and p.levels == 1 and p.const:
            return 'api.text'
        if p.outer:
            kind = p.kind[:p.kind.rindex('*')].strip()
            local.append(f'{kind} v{i} = API_POISON;')
            return f'&v{i}'
        length = re.match(r'\[(\w+)\]', p.array)
        if p.array or p.levels == 1:
            kind = p.kind if p.array else p.kind[:p.kind.rindex('*')].strip()
            n = length.group(1) if length else '4'
            local.append(f'static {re.sub("const$", "", kind).removeprefix("const ")} v{i}[{n}];')
            return f'v{i}'
        sys.exit(f'{f.name}: no value is known for {p.kind} {p.name}{p.array}')

    def has_log(self, f, null):
        return any(i not in null and (p.log or (p.levels == 1 and (
            p.base in self.logging or p.base.removeprefix('struct ') in self.logs)))
            for i, p in enumerate(f.params))

    def call(self, f, null, label, zeroed=None):
        local, args = [], []
        for i, p in enumerate(f.params):
            value = 'NULL' if i in null else self.value(f, i, local)
            args.append(f'&api_zeroed.{zeroed}' if i not in null and zeroed and p.base == f'struct {zeroed}' else value)
        call = f'{f.name}({", ".join(args)})'
        check = ('API_VOID' if f.result == 'void' else 'API_INT' if f.result == 'int' else
                 'API_POINTER' if f.result.endswith('*') else
                 'API_STRUCT' if f.result.startswith('struct') else 'API_ZERO')
        if all(not f.params[i].required for i in null) and not zeroed:
            check = 'API_ANY' if f.result != 'void' else 'API_VOID'
        body = [f'api_begin("{f.name}", "{label}");'] + local
        first = f'{f.result}, ' if check == 'API_STRUCT' else ''
        body.append(f'{check}({first}{call});')
        if check != 'API_ANY' and not f.ends and self.has_log(f, null):
            body.append('api_check_logged();')
        if check == 'API_INT':
            body += [f'api_check_cleared(v{i});' for i, p in enumerate(f.params) if i not in null and p.outer]
        self.lines.append('    {\n' + ''.join(f'        {b}\n' for b in body) + '    }')

    def function(self, f):
        pointers = [i for i, p in enumerate(f.params) if p.pointer]
        if not pointers:
            return self.scalars(f)
        self.lines.append(f'static void call_{f.name}(void)\n{{')
        self.call(f, set(pointers), 'all')
        for i in pointers:
            if f.params[i].required and len(pointers) > 1:
                self.call(f, {i}, f.params[i].name)
        if f.ends:
            kind = f.params[0].kind[:f.params[0].kind.rindex('*')].strip()
            self.lines.append(f'    {{\n        {kind} none = NULL;\n        {f.name}(&none);\n    }}')
        for p in f.params:
            name = p.base.removeprefix('struct ')
            if name in self.needs and p.base != name:
                self.call(f, set(), f'an empty {name}', name)
        self.lines.append('}\n')

    def scalars(self, f):
        """No pointer: values out of range must do no harm."""
        self.lines.append(f'static void call_{f.name}(void)\n{{\n    api_begin("{f.name}", "nothing");')
        for value in ('0', '-1', '1 << 20'):
            args = ', '.join('(struct {0}){{0}}'.format(p.base.removeprefix('struct ')) if
                             p.base.startswith('struct') else f'({p.base})({value})' for p in f.params)
            self.lines.append(f'    API_ANY({f.name}({args}));')
        self.lines.append('}\n')

    def write(self, path):
        for f in self.protos:
            self.function(f)
        with open(path, 'w') as o:
            o.write('// Written by api_calls.py.\nstruct api {\n')
            o.writelines(f'    {h} *{h};\n' for h in sorted(self.handles))
            o.writelines(f'    struct {s} given_{s};\n' for s in sorted(self.given))
            o.write('    struct tachy_log log;\n    const char *text;\n};\n')
            o.write('static struct api api;\nstatic struct {\n')
            o.writelines(f'    struct {s} {s};\n' for s in sorted(self.needs))
            o.write('} api_zeroed;\n\n')
            o.write('static void api_hand_log(void)\n{\n')
            o.writelines(f'    api.given_{s}.log = api_zeroed.{s}.log = &api.log;\n' if s in self.needs else
                         f'    api.given_{s}.log = &api.log;\n' for s in sorted(self.given & self.logs))
            o.write('}\n\n')
            o.write('\n'.join(self.lines))
            o.write('\nstatic const struct api_case {\n    const char *name;\n    void (*run)(void);\n} api_cases[] = {\n')
            o.writelines(f'    {{"{f.name}", call_{f.name}}},\n' for f in self.protos)
            o.write('};\n')


def main():
    protos, opaque, logs, needs = [], set(), set(), set()
    for header in sys.argv[2:]:
        with open(header) as f:
            text = f.read()
        protos += functions(text)
        opaque |= {m.group(1) for m in re.finditer(r'^typedef struct (tachy_\w+) \1;', text, re.M)}
        more = structs(text)
        logs |= more[0]
        needs |= more[1]
    Writer(protos, opaque, logs, needs).write(sys.argv[1])


main()
