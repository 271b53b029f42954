// Cuts people out of a video, as `tachy segment` does, with the library's own job.
//
//   segment_file IN OUT [OPTION=VALUE]...
//   segment_file in.mp4 out.mp4 segment.mode=blur output.crf=20
//
// OPTION is a dotted path of the option table; `tachy config` lists them all. One that has no effect on such a job
// (replay.loop, run.keys) is an error.
#include <stdio.h>
#include <string.h>
#include <tachy/job.h>

// The library never prints: it passes its messages to this function, from any thread.
static void print_log(void *user, enum tachy_log_level level, const char *msg)
{
    fprintf(stderr, "%s%s\n", level == TACHY_LOG_ERR ? "error: " : "", msg);
}

static const struct tachy_log log_to_stderr = {.fn = print_log, .max_level = TACHY_LOG_INFO};

static bool print_progress(void *user, const struct tachy_job_file *f, const struct tachy_progress *p)
{
    fprintf(stderr, "\r%lld frames, %.0f fps ", (long long)p->frames, p->fps);
    return true; // false would stop the run
}

static void print_end(void *user, const struct tachy_job_file *f, int err, const struct tachy_summary *s)
{
    char *text = NULL;
    if (err == TACHY_OK && tachy_summary_text(&text, s) == TACHY_OK)
        printf("\n%s\n%s is ready\n", text, f->output ? f->output : "nothing");
    tachy_free(text);
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

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: %s IN OUT [OPTION=VALUE]...\n", argv[0]);
        return 2;
    }
    tachy_settings *settings = NULL;
    tachy_job *job = NULL;
    int err = tachy_settings_new(&settings, &log_to_stderr);
    if (err == TACHY_OK)
        err = tachy_settings_set(settings, "input.files", argv[1], "command line");
    if (err == TACHY_OK)
        err = tachy_settings_set(settings, "output.file", argv[2], "command line");
    if (err == TACHY_OK)
        err = tachy_settings_set(settings, "output.overwrite", "yes", "command line");
    if (err == TACHY_OK)
        err = read_options(settings, argv + 3, argc - 3);
    if (err == TACHY_OK)
        err = tachy_job_open(&job, tachy_job_params(.task = "segment", .settings = settings, .log = &log_to_stderr,
                                                    .progress = print_progress, .end = print_end));
    tachy_settings_free(&settings); // the job has its own copy
    if (err == TACHY_OK)
        err = tachy_job_run(job);
    tachy_job_close(&job);
    return err == TACHY_OK ? 0 : 1;
}
