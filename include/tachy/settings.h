#pragma once
#include <tachy/common.h>

#ifdef __cplusplus
extern "C" {
#endif

// One typed option table feeds the command line, the configuration file, help, man page and completion. Every row has a
// dotted path ("output.crf"); command-line names are shorter ("crf"). Settings are the values for one run, each with
// its origin.

enum tachy_opt_type {
    TACHY_OPT_BOOL,   // yes/no, true/false, on/off, 1/0; a bare --name is yes, --no-name is no
    TACHY_OPT_INT,
    TACHY_OPT_FLOAT,
    TACHY_OPT_TIME,   // seconds, or [HH:]MM:SS[.m...], as in FFmpeg
    TACHY_OPT_STRING,
    TACHY_OPT_ENUM,   // one of `values`
    TACHY_OPT_RATE,   // 25, 30000/1001
    TACHY_OPT_COLOR,  // name or #RRGGBB[AA]
    TACHY_OPT_LIST,   // strings; repeating the option adds one
    TACHY_OPT_SIZE,   // 256, 256x144: width and height, each 1..16384
};

// Verbs that read an option, as bits.
enum {
    TACHY_VERB_RUN = 1 << 0,     // a job of any task (job.h)
    TACHY_VERB_COMMAND = 1 << 1, // the command around a job: its prompt, its metrics
    TACHY_VERB_PROBE = 1 << 2,
    TACHY_VERB_DOCTOR = 1 << 3,
    TACHY_VERB_MODEL = 1 << 4,
    TACHY_VERB_CONFIG = 1 << 5,
    TACHY_VERB_PROFILE = 1 << 6,
    TACHY_VERB_REPLAY = 1 << 7,
    TACHY_VERB_ENGINE = 1 << 8,
    TACHY_VERB_SHELL = 1 << 9,
    TACHY_VERB_COMPARE = 1 << 10,
    TACHY_VERB_TUNE = 1 << 11,
    TACHY_VERB_CURATE = 1 << 12,
    TACHY_VERB_RESULTS = 1 << 13, // results of runs: compare, report, plot
    TACHY_VERB_BENCH = 1 << 14,
    TACHY_VERB_CHECK = 1 << 15,
    TACHY_VERB_ALL = 0x7ffffffe, // every verb of the command except jobs
};
#define TACHY_VERB_TASK(i) (UINT64_C(1) << (32 + (i))) // a job of the task tachy_task_at(i), i: 0..31
#define TACHY_VERB_TASKS (~UINT64_C(0) << 32)         // a job of any task

// Another key in a configuration file for a row.
struct tachy_key {
    const char *path;       // "processing.num_threads"
    const char *yes, *no;   // the key takes yes or no, which stand for these values; NULL: it takes
                            // the row's own values
};

struct tachy_option {
    const char *path;   // "output.crf"; NULL ends the table
    const char *name;   // command line, without dashes: "crf"; NULL: configuration file only
    char letter;        // one-letter form, 0: none
    enum tachy_opt_type type;
    const char *def;    // default as text; NULL: unset
    double min, max;    // numbers; both 0: any
    const char *values; // enum: "mask|cutout|blur"
    const char *arg;    // placeholder in help: "FILE"; NULL: by type
    const char *group;  // heading in help: "Input"
    const char *help;   // one sentence, lower case, no full stop
    uint64_t verbs;
    const char *bare;    // value of --name without one; another is given as --name=VALUE, a
                         // number or an address also after a space; NULL: needs a value (BOOL: yes)
    const char *aliases; // other names on the command line: "vcodec|codec:v"; may be NULL
    bool one_dash;       // FFmpeg's name, shown with one dash: -crf
    bool command_only;   // not allowed in a configuration file
    const struct tachy_key *keys; // other keys for it, {0} follows the last; may be NULL
    const char *planned; // not implemented yet: what happens instead; NULL: implemented
    const char *needless; // accepted for users of other tools, but without effect: why; NULL: it has an effect
    const char *then;    // path of a row that takes the integer that follows the value on the
                         // command line: --save-stage DIR 8; may be NULL
    const char *over;    // path of a row that this one overrides while the settings are
                         // for its section's task (tachy_settings_for()); may be NULL
    bool range;          // INT: also a range such as "16-32", whose upper end is used
    const char *tune;    // the row affects speed: values to try, as "1|4|16"; "cores": 1, 2, 4 up to twice the
                         // number of cores; NULL: it is not tuned
    bool tune_changes;   // those values may change results, so quality must be checked
    bool at_end;         // applies to all frames of all inputs together, in the section of its task: not with --parallel or
                         // --resume; docs/curate.md says which of them curate takes
};

// The table, in the order of help. Static memory.
TACHY_API const struct tachy_option *tachy_options(void);
// Finds a row by dotted path, key, command-line name, alias or letter; NULL: none. If there is none, *nearest is the
// closest name (closest path for a word with a dot) for an error message, or NULL. `nearest` may be NULL. Thread-safe.
TACHY_API const struct tachy_option *tachy_option_find(const char *name, const char **nearest);

// Like tachy_option_find(), for names that people type: also takes '_' for '-', and the last part of a path or key
// ("batch_size"; "max_latency" without its unit), which means the first such row of the table. `nearest` may be NULL.
TACHY_API const struct tachy_option *tachy_option_lookup(const char *name, const char **nearest);

typedef struct tachy_settings tachy_settings; // not thread-safe while it is changed

TACHY_API int tachy_settings_new(tachy_settings **out, const struct tachy_log *log);
// A copy that logs to `log`, which may be NULL. Failures set *out to NULL.
TACHY_API int tachy_settings_copy(tachy_settings **out, const tachy_settings *from, const struct tachy_log *log);
TACHY_API void tachy_settings_free(tachy_settings **s);

// Sets one value from text, checked against type, range and values. *origin says where it comes from ("command line",
// "my.yaml:12") and is copied; `origin` may be NULL ("program"). TACHY_ERR_NOT_FOUND: the log suggests the nearest option;
// TACHY_ERR_INVAL: the log gives the allowed values. `name`: path or command-line name. A later set wins; for lists it
// adds one. Values set here have priority over every file. After a failure the old value stands. An option that is not
// implemented yet is accepted with one warning. run.profile loads its preset (docs/config.md), which has lower priority
// than every file.
TACHY_API int tachy_settings_set(tachy_settings *s, const char *name, const char *value,
                                 const char *origin);

// Reads a YAML file: nested mappings of the dotted paths and `version: 1` (docs/config.md). Errors name file and line;
// the file is then ignored as a whole. Values set with tachy_settings_set() before or after this keep priority. A later
// file wins over an earlier one, lists as a whole. If several keys in a file name one option, the key in the more
// specific section wins; within a section they must agree. TACHY_ERR_FORMAT: not YAML, an unknown or duplicate key;
// TACHY_ERR_INVAL: a wrong value; TACHY_ERR_LIMIT: over 1 MiB; TACHY_ERR_NOT_FOUND, TACHY_ERR_IO.
TACHY_API int tachy_settings_load(tachy_settings *s, const char *yaml_path);

// Makes later reads apply to the task of this section ("animation"); `section` may be NULL: no task. If a row of the
// section overrides another (animation.batch_size for model.batch_size) and came from the same place or one of higher
// priority, a read of the other returns its value.
TACHY_API int tachy_settings_for(tachy_settings *s, const char *section);

// Typed reads by dotted path, which must be in the table (else they return the unset value). A value may be read as
// another type if that makes sense: every value as text, a list as its first item, an INT as float. Strings stay valid
// until the value is set again or the settings are freed.
TACHY_API bool tachy_settings_is_set(const tachy_settings *s, const char *path); // not default
TACHY_API bool tachy_settings_bool(const tachy_settings *s, const char *path);   // unset: false
TACHY_API int64_t tachy_settings_int(const tachy_settings *s, const char *path); // unset: 0
// Also TIME, in seconds, and ENUM, the index of its word in `values`. Unset: 0.
TACHY_API double tachy_settings_float(const tachy_settings *s, const char *path);
TACHY_API const char *tachy_settings_str(const tachy_settings *s, const char *path); // unset: NULL
// Unset: 0/0.
TACHY_API struct tachy_rational tachy_settings_rate(const tachy_settings *s, const char *path);
// 0xRRGGBBAA; unset or not a colour: 0.
TACHY_API uint32_t tachy_settings_color(const tachy_settings *s, const char *path);
// Unset: returns false and sets both to 0.
TACHY_API bool tachy_settings_size(const tachy_settings *s, const char *path, int *width,
                                   int *height);
// Returns the count; *items (not NULL unless the count is 0) ends with a NULL. Unset: 0.
TACHY_API size_t tachy_settings_list(const tachy_settings *s, const char *path,
                                     const char *const **items);
// "default", "preset fast (configs/fast.yaml:3)", "my.yaml:12", "command line".
TACHY_API const char *tachy_settings_origin(const tachy_settings *s, const char *path);

// The settings as a configuration file that tachy_settings_load() reads, with each origin as a comment: values that
// were set, and the other rows that one of `verbs` reads (0: none; ~0u: all). And as a JSON object: path -> value,
// origin, and no_effect_yet or not_needed if that applies. *yaml and *json: free with tachy_free(). TACHY_ERR_NOMEM.
TACHY_API int tachy_settings_yaml(char **yaml, const tachy_settings *s, uint64_t verbs);
TACHY_API int tachy_settings_json(char **json, const tachy_settings *s);

#ifdef __cplusplus
}
#endif
