#include "curate/export.h"

#include <stdlib.h>

// Contact sheets: one page that a browser opens from the folder of results. Its script makes the sheets from the frames' data,
// which stands in the page as JSON. Pictures are in images/.

enum { FRAMES_MAX = 20000 }; // of more, every second, fourth, ... is in the page

struct page {
    const struct curate_export *x;
    char **measure; // "task.name" of the frames' values, "task.count", "task.score", owned
    int nb_measures;
    char **frame; // JSON of each, owned
    int nb_frames;
    int64_t all, step; // kept frames; one in `step` is in `frame`
};

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">"
    "<link rel=\"icon\" href=\"data:,\"><title>tachy curate</title>\n<style>\n"
    ":root{color-scheme:light dark;--text:#222;--back:#fff;--soft:#666;--rule:#ddd;--tile:#f0f0f0}\n"
    "@media(prefers-color-scheme:dark){:root{--text:#e4e4e4;--back:#17191c;--soft:#a0a4a8;--rule:#3a3d41;--tile:#24272b}}\n"
    "body{font:15px/1.5 system-ui,'DejaVu Sans',sans-serif;margin:0 auto;max-width:1400px;padding:0 1em 3em;color:var(--text);"
    "background:var(--back)}\n"
    "h1{font-size:1.6em;margin-bottom:0}h2{font-size:1.2em;margin-top:1.6em;border-bottom:1px solid var(--rule)}"
    "h3{font-size:1em;margin:1em 0 .3em}h3 button{font-weight:400;margin-left:.6em}h3 small,.soft{color:var(--soft);font-weight:400}\n"
    "form{position:sticky;top:0;background:var(--back);padding:.6em 0;border-bottom:1px solid var(--rule);display:flex;flex-wrap:wrap;"
    "align-items:baseline;gap:.4em 1.2em;z-index:1}form input,form select,button{font:inherit;max-width:16em}form [type=number]{width:7em}\n"
    ".sheet{display:grid;grid-template-columns:repeat(auto-fill,minmax(150px,1fr));gap:8px}"
    ".sheet a{color:inherit;text-decoration:none;min-width:0}.sheet a:hover span,.sheet a:focus span{text-decoration:underline}"
    ".sheet img{width:100%;height:110px;object-fit:contain;background:var(--tile);display:block}"
    ".sheet span{display:block;font-size:.8em;color:var(--soft);white-space:nowrap;overflow:hidden;text-overflow:ellipsis}"
    ".ends{display:grid;grid-template-columns:1fr 1fr;gap:0 24px}@media(max-width:800px){.ends{grid-template-columns:1fr}}"
    ".row{grid-template-columns:repeat(8,minmax(0,1fr))}@media(max-width:800px){.row{grid-template-columns:repeat(4,minmax(0,1fr))}}"
    ".ends .sheet{grid-template-columns:repeat(4,minmax(0,1fr))}.ends .sheet img{height:90px}\n"
    "</style></head><body>\n<h1>Contact sheets</h1>\n<p class=\"soft\" id=\"about\"></p>\n<form id=\"filter\" onsubmit=\"return false\">\n"
    "<label>Category <select name=\"category\"></select></label>\n<label>Measure <select name=\"measure\"></select></label>\n"
    "<label>from <input name=\"from\" type=\"number\" step=\"any\"></label>\n<label>to <input name=\"to\" type=\"number\" step=\"any\"></label>\n"
    "<label>Order <select name=\"order\"><option value=\"0\">as read</option><option value=\"1\">lowest first</option>"
    "<option value=\"-1\">highest first</option></select></label>\n"
    "<label>File <input name=\"file\" type=\"search\" placeholder=\"part of a name\"></label>\n<button type=\"reset\">Reset</button>\n</form>\n"
    "<h2>Frames <small class=\"soft\" id=\"count\"></small></h2>\n<div class=\"sheet\" id=\"frames\"></div>\n"
    "<p><button id=\"more\">Show more</button></p>\n<h2 id=\"c\">Categories</h2>\n<div id=\"categories\"></div>\n"
    "<h2 id=\"m\">Lowest and highest of each measure</h2>\n<div id=\"measures\"></div>\n<script id=\"data\" type=\"application/json\">\n";

static const char tail[] =
    "</script>\n<script>\n"
    "const data = JSON.parse(document.getElementById('data').textContent), $ = id => document.getElementById(id);\n"
    "const f = $('filter').elements, PAGE = 48, ROW = 8;\n"
    "let shown = [], upto = 0;\n"
    "const make = (tag, text, into) => { const e = document.createElement(tag); e.textContent = text; into.append(e); return e; };\n"
    "const short = v => Math.abs(v) >= 1e6 || v && Math.abs(v) < 1e-3 ? v.toExponential(2) : String(+v.toPrecision(4));\n"
    "const value = (o, m) => o.values[m];\n"
    "const has = (o, m) => typeof value(o, m) === 'number';\n"
    "function tile(o, m, into) {\n"
    "  const a = make('a', '', into), i = make('img', '', a), name = o.file.split('/').pop();\n"
    "  a.href = i.src = o.picture.split('/').map(encodeURIComponent).join('/');\n"
    "  i.loading = 'lazy'; i.alt = '';\n"
    "  a.title = [o.file + ', frame ' + o.frame, ...o.labels, ...data.measures.map((n, k) => has(o, k) ? n + ' ' + short(value(o, k)) : '')]\n"
    "    .filter(s => s).join('\\n');\n"
    "  make('span', (m >= 0 && has(o, m) ? short(value(o, m)) + ' \\u00b7 ' : '') + name + ' \\u00b7 ' + o.frame, a);\n"
    "}\n"
    "function more() {\n"
    "  for (const o of shown.slice(upto, upto + PAGE)) tile(o, +f.measure.value, $('frames'));\n"
    "  upto = Math.min(upto + PAGE, shown.length);\n"
    "  $('more').hidden = upto === shown.length;\n"
    "}\n"
    "function categories() {\n"
    "  const all = new Map();\n"
    "  for (const o of shown) for (const l of o.labels) all.has(l) ? all.get(l).push(o) : all.set(l, [o]);\n"
    "  $('c').hidden = !all.size;\n"
    "  for (const [name, list] of [...all].sort((a, b) => b[1].length - a[1].length)) {\n"
    "    const h = make('h3', name + ' ', $('categories')), b = (make('small', list.length, h), make('button', 'Only these', h));\n"
    "    b.onclick = () => { f.category.value = name; render(); scrollTo(0, 0); };\n"
    "    const sheet = make('div', '', $('categories')); sheet.className = 'sheet row';\n"
    "    list.filter((o, k) => Math.floor(k * ROW / list.length) > Math.floor((k - 1) * ROW / list.length)).forEach(o => tile(o, -1, sheet));\n"
    "  }\n"
    "}\n"
    "function measures() {\n"
    "  let any = false;\n"
    "  data.measures.forEach((name, m) => {\n"
    "    const list = shown.filter(o => has(o, m)).sort((a, b) => value(a, m) - value(b, m)), n = list.length;\n"
    "    if (!n || value(list[0], m) === value(list[n - 1], m)) return;\n"
    "    any = true;\n"
    "    const h = make('h3', name + ' ', $('measures')), ends = make('div', '', $('measures'));\n"
    "    make('small', short(value(list[0], m)) + ' to ' + short(value(list[n - 1], m)) + ', median ' + short(value(list[n >> 1], m)), h);\n"
    "    ends.className = 'ends';\n"
    "    for (const [word, part] of [['lowest', list.slice(0, ROW)], ['highest', list.slice(-ROW).reverse()]]) {\n"
    "      const side = make('div', '', ends), sheet = (make('span', word, side).className = 'soft', make('div', '', side));\n"
    "      sheet.className = 'sheet';\n"
    "      for (const o of part) tile(o, m, sheet);\n"
    "    }\n"
    "  });\n"
    "  $('m').hidden = !any;\n"
    "}\n"
    "function render() {\n"
    "  const m = +f.measure.value, order = +f.order.value, word = f.file.value.toLowerCase(), from = f.from.value, to = f.to.value;\n"
    "  shown = data.frames.filter(o => (!f.category.value || o.labels.includes(f.category.value)) && o.file.toLowerCase().includes(word) &&\n"
    "    (m < 0 || from === '' && to === '' || has(o, m) && (from === '' || value(o, m) >= +from) && (to === '' || value(o, m) <= +to)));\n"
    "  if (m >= 0 && order) shown.sort((a, b) => has(b, m) - has(a, m) || order * (value(a, m) - value(b, m)));\n"
    "  for (const id of ['frames', 'categories', 'measures']) $(id).replaceChildren();\n"
    "  for (const e of [f.from, f.to, f.order]) e.disabled = m < 0;\n"
    "  $('count').textContent = shown.length + ' of ' + data.frames.length;\n"
    "  upto = 0; more(); categories(); measures();\n"
    "}\n"
    "const option = (into, text, v) => { make('option', text, into).value = v; };\n"
    "option(f.category, 'all', ''); option(f.measure, 'none', -1);\n"
    "[...new Set(data.frames.flatMap(o => o.labels))].sort().forEach(l => option(f.category, l, l));\n"
    "data.measures.forEach((name, m) => { if (data.frames.some(o => has(o, m))) option(f.measure, name, m); });\n"
    "$('about').textContent = new Set(data.frames.map(o => o.file)).size + ' files, ' + data.all + ' kept frames' +\n"
    "  (data.step > 1 ? '; this page has one frame of ' + data.step : '');\n"
    "$('filter').oninput = render; $('filter').onreset = () => setTimeout(render); $('more').onclick = more;\n"
    "render();\n</script>\n</body></html>\n";

static void free_page(struct page *p)
{
    for (int i = 0; i < p->nb_measures; i++)
        free(p->measure[i]);
    for (int i = 0; i < p->nb_frames; i++)
        free(p->frame[i]);
    free(p->measure);
    free(p->frame);
    free(p);
}

static int page_open(const struct curate_export *x, void **priv)
{
    size_t most = 2 * json_object_size(x->tasks) + json_object_size(x->columns);
    struct page *p = *priv = calloc(1, sizeof(*p));
    const char *name;
    json_t *v;
    if (!p)
        return TACHY_ERR_NOMEM;
    *p = (struct page){.x = x, .measure = calloc(most + 1, sizeof(char *)), .frame = calloc(FRAMES_MAX, sizeof(char *)), .step = 1};
    bool ok = p->measure && p->frame;
    if (ok) {
        json_object_foreach(x->columns, name, v)
            ok &= (p->measure[p->nb_measures++] = tachy_asprintf("%s", name)) != NULL;
        json_object_foreach(x->tasks, name, v) {
            ok &= (p->measure[p->nb_measures++] = tachy_asprintf("%s.count", name)) != NULL;
            ok &= (p->measure[p->nb_measures++] = tachy_asprintf("%s.score", name)) != NULL;
        }
    }
    if (!ok) {
        free_page(p);
        *priv = NULL;
    }
    return ok ? TACHY_OK : TACHY_ERR_NOMEM;
}

// A measure's value in a frame; NULL: none. The caller owns it.
static json_t *measure(json_t *frame, const char *name)
{
    char task[64];
    size_t n = strcspn(name, ".");
    snprintf(task, sizeof(task), "%.*s", (int)n, name);
    json_t *regions = curate_regions(frame, task);
    json_t *own = json_object_get(json_object_get(json_object_get(frame, task), "values"), name + n + 1);
    if (own)
        return json_incref(own);
    if (json_array_size(regions) && !strcmp(name + n + 1, "score"))
        return json_incref(json_object_get(curate_best(regions), "score"));
    return regions && !strcmp(name + n + 1, "count") ? json_integer((json_int_t)json_array_size(regions)) : NULL;
}

// "task: label" of each label in the frame, once.
static json_t *labels(const struct page *p, json_t *frame)
{
    json_t *said = json_object(), *list = json_array(), *v, *r;
    const char *task;
    size_t i;
    json_object_foreach(p->x->tasks, task, v)
        json_array_foreach(curate_regions(frame, task), i, r) {
            const char *label = json_string_value(json_object_get(r, "label"));
            char *name = tachy_asprintf(label ? "%s: %s" : "%s", task, label);
            if (name && !json_object_get(said, name)) {
                json_object_set_new(said, name, json_true());
                json_array_append_new(list, json_string(name));
            }
            free(name);
        }
    json_decref(said);
    return list;
}

// Every second frame goes, to make room.
static void thin(struct page *p)
{
    for (int i = 0; i < p->nb_frames; i++)
        if (i % 2)
            free(p->frame[i]);
        else
            p->frame[i / 2] = p->frame[i];
    p->nb_frames = (p->nb_frames + 1) / 2;
    p->step *= 2;
}

static int page_frame(void *priv, json_t *frame)
{
    struct page *p = priv;
    json_t *picture = json_object_get(frame, "picture"), *values = json_array();
    if (!picture || p->all++ % p->step) {
        json_decref(values);
        return TACHY_OK;
    }
    if (p->nb_frames == FRAMES_MAX)
        thin(p); // this frame stays: FRAMES_MAX is even
    for (int i = 0; i < p->nb_measures; i++) {
        json_t *v = measure(frame, p->measure[i]);
        json_array_append_new(values, v ? v : json_null());
    }
    json_t *o = json_pack("{s:O, s:O, s:O, s:o, s:o}", "picture", picture, "file", json_object_get(frame, "file"), "frame",
                          json_object_get(frame, "frame"), "labels", labels(p, frame), "values", values);
    char *text = o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(6) | JSON_ENSURE_ASCII) : NULL;
    json_decref(o);
    if (text)
        p->frame[p->nb_frames++] = text;
    return text ? TACHY_OK : TACHY_ERR_NOMEM;
}

// JSON that cannot end the script element it stands in: "<" is only in texts.
static void put_json(struct tachy_text *t, const char *json)
{
    for (const char *s = json; *s;) {
        size_t n = strcspn(s, "<");
        tachy_text_put(t, s, n);
        s += n;
        if (*s == '<') {
            tachy_text_add(t, "\\u003c");
            s++;
        }
    }
}

static int page_close(void *priv, bool ok)
{
    struct page *p = priv;
    struct tachy_text t = {0};
    char *path = tachy_asprintf("%s/page.html", p->x->dir);
    tachy_text_put(&t, head, sizeof(head) - 1);
    tachy_text_add(&t, "{\"all\":%lld,\"step\":%lld,\"measures\":[", (long long)p->all, (long long)p->step);
    for (int i = 0; i < p->nb_measures; i++)
        tachy_text_add(&t, "%s\"%.200s\"", i ? "," : "", p->measure[i]);
    tachy_text_add(&t, "],\"frames\":[");
    for (int i = 0; i < p->nb_frames; i++) {
        tachy_text_add(&t, i ? ",\n" : "\n");
        put_json(&t, p->frame[i]);
    }
    tachy_text_add(&t, "]}\n");
    tachy_text_put(&t, tail, sizeof(tail) - 1);
    int err = !path || t.failed ? TACHY_ERR_NOMEM : TACHY_OK;
    if (ok && err == TACHY_OK)
        err = tachy_write_file(path, t.p, t.len, p->x->log);
    free(path);
    tachy_text_free(&t);
    free_page(p);
    return err;
}

const struct curate_format curate_page = {.name = "page", .pictures = true, .open = page_open, .frame = page_frame, .close = page_close};
