#pragma once
#include <stdbool.h>
#include <stdio.h>
#include <tachy/tachy.h>

// What the parts of the command share. The command sees the library's public headers only.

// Exit statuses, as `tachy help` states them.
enum {
    STATUS_OK = 0,
    STATUS_FAILED = 1,
    STATUS_USAGE = 2,
    STATUS_AGAIN = 75,        // EX_TEMPFAIL: the same command may succeed later
    STATUS_INTERRUPTED = 130, // as a shell reports SIGINT
};

struct cli {
    const struct verb *verb;
    struct tachy_log log;     // to standard error; see message.c
    tachy_settings *settings; // options and configuration files
    const char **args;        // arguments without an option, in order; argv's
    size_t n_args;
    // tachy profile VERB ...; else NULL.
    const struct verb *inner; // VERB
    const char **inner_argv;  // the command without what belongs to the profile; ends with NULL
    size_t n_inner;
    tachy_profile *profile;   // runs record into it
    char *profile_trace;      // where the trace goes that no option asked for; NULL: nowhere
    bool profile_ready;       // its files were checked: the run has begun
    bool stdout_taken;        // by an output or a summary
};

// One `tachy NAME ...`; defined in cmd_NAME.c, listed in main.c.
struct verb {
    const char *name;
    const char *usage;    // after "tachy NAME "
    const char *summary;  // one line, lower case, no full stop
    const char *details;  // paragraphs, separated by an empty line; may be NULL
    const char *words;    // first arguments to choose from: "list|pull"; may be NULL
    unsigned options;     // TACHY_VERB_*: rows of the option table that belong here
    struct example {
        const char *command, *what;
    } examples[9];        // ends with {0}
    int (*run)(struct cli *c); // returns an exit status
};
enum { VERB_GENERAL = 1 << 16 }; // takes the rows of TACHY_VERB_ALL only

extern const struct verb verb_segment, verb_probe, verb_doctor, verb_model, verb_config, verb_profile,
    verb_help, verb_man, verb_completion;
const struct verb *const *cli_verbs(void); // ends with NULL
const struct verb *cli_verb(const char *name);

// main.c: how much is printed, by the settings as they are.
void cli_level(struct cli *c);

// args.c: fills c->settings, c->args and c->verb. Errors are logged.
int args_parse(struct cli *c, int argc, char **argv);

// live_options.c: how frames that cannot wait are dealt with; and a note on what is asked for and
// has no effect.
struct tachy_live_params live_options(const tachy_settings *set);
void live_options_say(const struct cli *c, const char *input);

// message.c: everything on standard error. A failure is said once: errors are kept, and the
// last one is printed by message_failed(). Thread-safe.
struct tachy_log message_log(void);
void message_level(struct tachy_log *log, enum tachy_log_level level);
void message_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void message_note(const struct tachy_log *log, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
// Prints "tachy: <the last error>" (or what `err` means in general); returns the exit status.
int message_failed(int err);
int message_usage(const char *fmt, ...) __attribute__((format(printf, 1, 2))); // STATUS_USAGE
// A line at the bottom of the terminal that messages are printed above; NULL removes it.
void message_status(const char *line);

// text.c
bool has_name(const struct tachy_option *o); // on the command line, other than its path
int terminal_width(FILE *f); // columns; 80 where it is no terminal
// Prints words from column `at` on, broken before `width`, further lines indented. No newline
// at the end.
void text_wrap(FILE *f, const char *text, int at, int indent, int width);
void option_left(const struct tachy_option *o, char *buf, size_t size);  // "-o, --output FILE"
// "FILE"; NULL: it takes none.
const char *option_value(const struct tachy_option *o, char *buf, size_t size);
// The help sentence with the allowed values and the default.
void option_right(const struct tachy_option *o, char *buf, size_t size);
// "cutout" of "mask|cutout", n = 1; NULL past the last. `buf` is returned.
const char *nth_word(const char *words, int n, char *buf, size_t size);

// cmd_help.c
void help_overview(FILE *f);
void help_verb(FILE *f, const struct verb *v);
// cmd_doctor.c: name and versions, from tachy_doctor().
int print_version(void);

// cmd_profile.c
// Before any work: names the trace after the output (NULL: after the input) where no file was
// asked for, and refuses to replace a file. TACHY_OK without a profile.
int profile_check_files(struct cli *c, const char *input, const char *output, bool overwrite);

// output_name.c
// The name that is derived from an input's. `folder` (may be NULL) ends in '/'. Free it.
char *output_name(const char *input, const char *mode, const char *format, const char *folder);
bool is_picture_name(const char *name);
// True where the name has FFmpeg's number pattern, "shot_%04d.png"; *at and *len: the pattern.
bool is_numbered_name(const char *name, size_t *at, size_t *len);

// output_text.c: where --json goes.
// Writes text to FILE, or to standard output for "-"; the text ends with a newline afterwards.
int write_text(const char *path, const char *text);
// Whether a file of this name could be written; the sentence is left for message_failed().
int check_writable(const char *path);

// progress.c
struct progress {
    bool bar;         // redraw one line of a terminal; else a plain line every few seconds
    bool off;         // --quiet
    double last_s;    // time of the last line, since the start
    const char *name; // of the input, shown in front
    const struct tachy_log *log;
};
void progress_start(struct progress *p, const struct cli *c, const char *name);
bool progress_show(void *progress, const struct tachy_progress *now); // for tachy_run_params
void progress_end(struct progress *p);
// One line of at most `width` columns, without newline.
void progress_line(char *buf, size_t size, int width, bool bar, const struct tachy_progress *now);
