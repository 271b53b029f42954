#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <tachy/tachy.h>

// Shared by the parts of the command. The command uses only the library's public headers.

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
    // tachy profile VERB ..., tachy tune VERB ...; else NULL.
    const struct verb *inner; // VERB
    const char **inner_argv;  // the command without what belongs to the outer verb; ends with NULL
    const struct tachy_option **inner_row; // the option that each of them is of; NULL: none
    size_t n_inner;
    tachy_profile *profile;   // runs record into it
    char *profile_trace;      // path of the trace if no option names one; NULL: none
    bool profile_ready;       // its files were checked: the run has begun
    bool stdout_taken;        // by an output or a summary
    tachy_control *control;   // of the runs; NULL: none goes on
    bool implied;             // no verb was given: the first argument is a file
    bool in_shell;            // one of the commands of `tachy shell`
};

#define EXAMPLES(...) (const struct tachy_example[]){__VA_ARGS__, {0}}

// One `tachy NAME ...`; defined in cmd_NAME.c, listed in main.c. The library's tasks are made into verbs there.
struct verb {
    const char *name;
    const char *usage;    // after "tachy NAME "
    const char *summary;  // one line, lower case, no full stop
    const char *details;  // paragraphs, separated by an empty line; may be NULL
    const char *words;    // first arguments to choose from: "list|pull"; may be NULL
    uint64_t options;     // TACHY_VERB_*: rows of the option table that belong here
    uint64_t by_path;     // TACHY_VERB_*: rows that are accepted only by their path, --pose.max_people, and are not in
                          // help
    const struct tachy_example *examples; // ends with {0}; NULL: none
    bool wraps;           // another verb and its arguments follow: tachy profile segment ...
    int (*run)(struct cli *c); // returns an exit status
};
enum { VERB_GENERAL = 1 << 30 }; // takes the rows of TACHY_VERB_ALL only

extern const struct verb verb_probe, verb_doctor, verb_model, verb_engine, verb_config, verb_profile, verb_tune, verb_bench, verb_check, verb_report,
    verb_plot, verb_replay, verb_compare, verb_compare_mattes, verb_curate, verb_shell, verb_help, verb_man, verb_completion;
const struct verb *const *cli_verbs(void); // ends with NULL
const struct verb *cli_verb(const char *name);
// The sentence for a name that is no verb, with the nearest one; left for message_failed(). TACHY_ERR_INVAL.
int cli_unknown_verb(const char *name);
extern char all_verbs[], task_verbs[]; // their names: "segment|probe"

// main.c
// How much is printed, by the settings as they are.
void cli_level(struct cli *c);
// Reads a command: c->settings, args and verb. Returns an exit status, -1: it is to be run.
int cli_parse(struct cli *c, int argc, char **argv);
int cli_run(struct cli *c); // the exit status
void cli_free(struct cli *c);
// The arguments are inputs. The sentence of a failure is left for message_failed().
int cli_take_inputs(struct cli *c);
// The shell cannot be confined with --sandbox; the same.
int cli_check_sandbox(const struct cli *c);
// Writes `value` where run.json says, a file or standard output, and releases it.
int cli_write_json(const struct cli *c, json_t *value);
// Unless `err` is a failure: writes `json` as cli_write_json() does, and prints `text` unless standard output is taken or
// --quiet was given. Frees both. Returns `err`, or what went wrong here.
int cli_report(const struct cli *c, int err, char *json, char *text);
// Whether `file` (may be NULL or "-") could be written: it is not there yet, or may be replaced. The sentence is left for
// message_failed().
int cli_check_free(const struct cli *c, const char *file);
// Checks the file of run.json in the same way.
int cli_check_json(const struct cli *c);

// Subcommands: the first argument of some verbs. One or two of the functions are set.
struct word {
    const char *name;
    int (*all)(struct cli *c);                   // without names
    int (*one)(struct cli *c, const char *name); // for each name
    bool single;                                 // there is one name
    int (*together)(struct cli *c);              // for all names: c->args[1] and on
    const char *needs; // what a name is; NULL: it goes without
};
// Runs the word that the first argument names, or `otherwise` if there is no argument (NULL: an error). `words` ends with
// {0}. Returns an exit status.
int cli_run_word(struct cli *c, const struct word *words, const char *otherwise);

// cmd_run.c: the verbs of tasks.
int run_task(struct cli *c); // an exit status

// search.c: --search and --like of a task that has them.
bool search_asked(const struct cli *c);
bool search_has_inputs(const struct cli *c); // without any the task itself has nothing to do
int search_run(struct cli *c, bool ran);     // prints the hits; `ran`: the task has run, and --json is of that
static inline bool runs_task(const struct verb *v) { return v && v->run == run_task; }
// As in FFmpeg the last argument may be the output: a lone "-" with -f, any argument after an input given with -i, and
// of two arguments the second if it cannot be an input; it is then args[n_args]. The others are inputs.
int run_take_arguments(struct cli *c);
extern const char run_usage[], run_details[]; // of a verb; the latter after the task's
// A control that SIGINT, SIGTERM and SIGHUP stop; a second one ends the process. One at a time.
// child.c: a process of this command.
struct child {
    const char *name;  // of what it works on, for the message when it cannot be started
    const char *program; // another one, found in $PATH; NULL: this command
    const char *const *argv; // ends with NULL
    FILE *out, *err;   // its standard output and error; emptied before. NULL: ours
};
// Starts it and waits for it; a stop of c->control is passed on. *status: its exit status. TACHY_ERR_AGAIN: it could not
// be started, and the sentence is left for message_failed().
int child_run(const struct cli *c, const struct child *child, int *status);
// watch.c: --watch; an exit status.
int watch_run(struct cli *c, const char *folder);
int control_open(tachy_control **out);
void control_close(tachy_control **c);

// complete.c: calls `add` for each word that may stand in the place of the last of `words`, without tachy itself, with
// what it means ("": nothing to say). Those that do not begin as the last one does are the caller's to leave out. True:
// a file may stand there as well. n >= 1.
typedef void add_word(void *to, const char *word, const char *what);
bool complete_words(const char *const *words, size_t n, add_word *add, void *to);

// args.c: fills c->settings, c->args and c->verb. Errors are logged.
int args_parse(struct cli *c, int argc, char **argv);

// message.c: all output to standard error. A failure is printed once: errors are kept, and message_failed() prints the
// last one. Thread-safe.
struct message_slot {
    char error[1024];
    bool printed; // as it came
};
// Errors that this log receives, and those of the calling thread, are kept in `slot` from now on
// (NULL: where all threads share). So two commands that run at once keep theirs apart.
struct tachy_log message_log(struct message_slot *slot);
void message_level(struct tachy_log *log, enum tachy_log_level level);
void message_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void message_note(const struct tachy_log *log, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
// Prints "tachy: <the last error>" (or what `err` means in general); returns the exit status.
int message_failed(int err);
int message_usage(const char *fmt, ...) __attribute__((format(printf, 1, 2))); // STATUS_USAGE
// A line at the bottom of the terminal that messages are printed above; NULL removes it.
void message_status(const char *line);
// A text of one or several lines to standard output or error, above that line.
void message_text(FILE *f, const char *text);
// From now on `print` gets every message and text, of any thread, and there is no status line:
// for whoever has the terminal. NULL: back to the streams.
void message_hook(void (*print)(void *user, FILE *f, const char *text), void *user);
bool message_hooked(void);

// text.c
double now_s(void); // seconds on a clock that only rises
bool has_name(const struct tachy_option *o); // on the command line, other than its path
int terminal_width(FILE *f); // columns; 80 if it is no terminal
int terminal_height(FILE *f); // lines; 0: not known
// Prints words from column `at` on, broken before `width`, further lines indented. No newline
// at the end.
void text_wrap(FILE *f, const char *text, int at, int indent, int width);
// `text` for `to`: on a terminal, lines that are too long are broken between words and go on indented. Lines that begin with
// a space are rows of a table and stay. Free it; NULL: no memory.
char *text_fit(const char *text, FILE *to);
void option_left(const struct tachy_option *o, char *buf, size_t size);  // "-o, --output FILE"
// "FILE"; NULL: it takes none.
const char *option_value(const struct tachy_option *o, char *buf, size_t size);
// The help sentence with the allowed values and the default.
void option_right(const struct tachy_option *o, char *buf, size_t size);
// "cutout" of "mask|cutout", n = 1; NULL past the last. `buf` is returned.
const char *nth_word(const char *words, int n, char *buf, size_t size);
// "a, b and c" of "a|b|c", with " and " as `last`; `buf` is returned.
char *list_words(const char *words, const char *last, char *buf, size_t size);

// The value of a key of a JSON object; "" or 0 if it is missing.
const char *text_of(const json_t *o, const char *key);
long long int_of(const json_t *o, const char *key);

// terminal.c: the terminal's settings are put back whatever way the process ends or is stopped.
// Keeps the settings of the terminal on standard input and watches signals. `changed` (may be
// NULL) is called in a signal handler after the process was continued. False: no terminal.
bool terminal_guard(void (*changed)(void));
void terminal_keys(void);    // single keys, without echo; signals stay
void terminal_release(void); // restores, and watches no more
// For handlers of signals that end the process: output that Ctrl-S stopped goes on, so that no write
// waits for a key.
void terminal_unblock(void);
// For signal handlers: restores the terminal, prints `text` to standard error unless that would block, and ends the
// process.
_Noreturn void terminal_exit(int status, const char *text);
bool terminal_is_ours(void); // this process is in the foreground of its terminal

// keys.c: single keys during a run on a terminal; without one nothing happens.
void keys_start(struct cli *c);
void keys_stop(void);
// Handles a key during a run; keys pressed in a window come here as well. Any thread.
void keys_press(const struct cli *c, char key);
void keys_help(FILE *f, const struct verb *v); // the list, for a verb that runs a task

// prompt.c: lines from standard input, with an editor on a terminal if one was built in.
struct prompt;
struct prompt_params {
    bool catch_int; // Ctrl-C clears the line
    // Called a few times per second by the thread that reads; false ends the reading.
    bool (*idle)(void *user);
    // Calls `add` for each word that may stand at the end of `line` in place of `word`, the last one there.
    void (*complete)(void *user, const char *line, const char *word, add_word *add, void *to);
    void *user;
};
int prompt_open(struct prompt **out, const struct prompt_params *p);
// The next line without its end, valid until the next call; NULL: the end, or idle said so.
const char *prompt_read(struct prompt *p);
bool prompt_edits(const struct prompt *p);  // with completion and history
void prompt_wake(void);                     // any thread: idle is called soon
void prompt_close(struct prompt **p);

// Prints what comes until `more` says false (true) or Ctrl-C is pressed (false); reads no line.
bool prompt_wait(struct prompt *p, bool (*more)(void *user), void *user);

// console.c: the commands of --interactive and of the shell.
struct console {
    struct cli *c;
    tachy_control *control;
    FILE *out;
    struct prompt *prompt;
    const struct command *own; // precede common ones of the same name; end with {0}; NULL: none
    // Runs a line that is a command of tachy, takes `argv` and sets *status; false: it is none. NULL: there are none here.
    bool (*run_verb)(struct console *k, const char *line, int argc, char **argv, int *status);
    int last_status;           // of the run that ended last
    const char *config, *config_all; // what `config` and `config all` print; NULL: no run
    bool for_run;              // --interactive: it is there from the start
    bool leave;                // by quit
    bool drain;                // asked for before the run had begun
    tachy_mark *mark;          // of `profile`; NULL: none goes on
    double until;              // when it ends, seconds of the monotonic clock
};
struct command {
    const char *name, *args, *what;
    int (*run)(struct console *k, int argc, char **argv); // exit status
};
// Opens k->prompt; `idle` gets `k`. Close it with prompt_close().
int console_open(struct console *k, bool catch_int, bool (*idle)(void *console));
// Runs a line and returns its command's status. For an empty line: k->last_status.
int console_line(struct console *k, const char *line);
void console_complete(void *console, const char *line, const char *word, add_word *add, void *to); // prompt_params.complete
void console_help(struct console *k); // lists the commands
void console_idle(struct console *k); // ends a profile in time
// The figures so far, as `stats` and the key r print them; free() it. NULL: no memory.
char *console_stats(const struct cli *c, tachy_control *control);
// A prompt while `work` goes on in a thread of its own; returns what `work` does.
int console_run(struct cli *c, int (*work)(void *arg), void *arg);

// metrics.c: serves c->control's figures where metrics.address asks for it. Close it with tachy_metrics_close().
int metrics_start(tachy_metrics **out, struct cli *c); // NULL and TACHY_OK: not asked for
// The runs have ended: waits until somebody has read the figures, for metrics.linger seconds at most. `m` may be NULL.
void metrics_linger(tachy_metrics *m, const struct cli *c);
// Writes them to the file of metrics.file, if one was named.
int metrics_write(const struct cli *c);

// cmd_help.c
void help_overview(FILE *f);
extern const struct tachy_example exit_statuses[]; // number and meaning; ends with {0}
void help_verb(FILE *f, const struct verb *v);
// cmd_doctor.c: name and versions, from tachy_doctor().
int print_version(void);

// cmd_profile.c
// Before any work: names the trace after the output (NULL: after the input) if no file was given, and refuses to
// replace a file. TACHY_OK without a profile.
int profile_check_files(struct cli *c, const char *input, const char *output, bool overwrite);

// output_text.c: where --json goes.
// The environment block of a result; {} if there is no memory for it.
json_t *environment_json(void);
// The command's own folder of this name in the user's cache; nothing is made. And mkdir -p. The sentence of a failure is left for
// message_failed().
int cache_folder(const char *name, char *buf, size_t size);
int make_folders(const char *path);
// Leaves the message that `name` cannot be written, by errno; TACHY_ERR_NO_SPACE or TACHY_ERR_IO.
int write_failed(const char *name);
// Writes text to FILE, or to standard output for "-"; the text ends with a newline afterwards.
int write_text(const char *path, const char *text);
// True if a file of this name can be written; else the message is left for message_failed().
int check_writable(const char *path);

// progress.c
struct progress {
    bool bar;         // redraw one line of a terminal; else a plain line every few seconds
    bool off;         // --quiet
    double last_s;    // time of the last line, since the start
    const char *name; // of the input, in front of a plain line; of several inputs in front of each
    bool several;     // inputs are worked on at once
    const struct tachy_log *log;
    tachy_control *control; // NULL: the run cannot be paused
    int64_t shown_paused;   // one more than the frames in the line of a pause; 0: none is shown
};
void progress_start(struct progress *p, const struct cli *c, const char *name);
bool progress_show(void *progress, const struct tachy_progress *now); // for tachy_run_params
// As above for a run over many inputs, whose progress is measured in bytes.
struct tachy_curate_progress;
void progress_inputs(struct progress *p, const struct tachy_curate_progress *now);
// Prints the time of each stage to standard output.
struct tachy_step_stats;
void progress_table(const struct tachy_step_stats steps[], int nb_steps);
void progress_end(struct progress *p);
// One line of at most `width` columns, without newline.
void progress_line(char *buf, size_t size, int width, bool bar, const struct tachy_progress *now);
