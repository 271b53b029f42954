// Cuts people out of a video, as `tachy segment` does, in one call of the library.
//
//   segment_file IN OUT [OPTION=VALUE]...
//   segment_file in.mp4 out.mp4 segment.mode=blur segment.threshold=0.6
//
// OPTION is a dotted path of the option table; `tachy config` lists them all.
#include <stdio.h>
#include <string.h>
#include <tachy/run.h>
#include <tachy/settings.h>

// The library never prints: this is where its messages go. Called from any thread.
static void print_log(void *user, enum tachy_log_level level, const char *msg)
{
    fprintf(stderr, "%s%s\n", level == TACHY_LOG_ERR ? "error: " : "", msg);
}

static const struct tachy_log log_to_stderr = {.fn = print_log, .max_level = TACHY_LOG_INFO};

static bool print_progress(void *user, const struct tachy_progress *p)
{
    fprintf(stderr, "\r%lld frames, %.0f fps ", (long long)p->frames, p->fps);
    return true; // false would stop the run
}

// Sets each "path=value" of the command line.
static int read_options(tachy_settings *s, char **args, int count)
{
    for (int i = 0; i < count; i++) {
        char *equal = strchr(args[i], '=');
        if (!equal) {
            fprintf(stderr, "error: %s is not of the form OPTION=VALUE\n", args[i]);
            return TACHY_ERR_INVAL;
        }
        *equal = '\0';
        int err = tachy_settings_set(s, args[i], equal + 1, "command line");
        if (err < 0)
            return err;
    }
    return TACHY_OK;
}

static int run(const char *in, const char *out, const tachy_settings *settings)
{
    tachy_source *source = NULL;
    tachy_task *task = NULL;
    tachy_sink *sink = NULL;
    struct tachy_summary summary;
    char *text = NULL;

    // want_side: collect sound, subtitles, chapters and metadata, so that the sink keeps them.
    int err = tachy_source_open(
        &source, tachy_source_params(.url = in, .want_side = true, .log = &log_to_stderr));
    if (err == TACHY_OK)
        err = tachy_task_open(&task, "segment", settings, &log_to_stderr);
    if (err == TACHY_OK)
        err = tachy_sink_open(
            &sink, tachy_sink_params(.url = out, .overwrite = true, .log = &log_to_stderr));
    if (err == TACHY_OK)
        err = tachy_run(tachy_run_params(.task = task, .source = source, .sink = sink,
                                         .progress = print_progress, .log = &log_to_stderr),
                        &summary);
    if (err == TACHY_OK)
        err = tachy_summary_text(&text, &summary);
    if (err == TACHY_OK)
        printf("\n%s\n%s is ready\n", text, out);

    // Each close accepts NULL; the order is the reverse of the opening.
    tachy_free(text);
    tachy_sink_close(&sink);
    tachy_task_close(&task);
    tachy_source_close(&source);
    return err;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: %s IN OUT [OPTION=VALUE]...\n", argv[0]);
        return 2;
    }
    tachy_settings *settings = NULL;
    int err = tachy_settings_new(&settings, &log_to_stderr);
    if (err == TACHY_OK)
        err = read_options(settings, argv + 3, argc - 3);
    if (err == TACHY_OK)
        err = run(argv[1], argv[2], settings);
    tachy_settings_free(&settings);
    return err == TACHY_OK ? 0 : 1;
}
