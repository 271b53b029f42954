#include "test.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <tachy/job.h>
#include <tachy/task.h>
#include <unistd.h>

// Checks of a job before any work: names, contradictions, unread options. tests/e2e runs whole jobs (test_examples, and
// every test of the command).

static char error[1024], folder[64] = "/tmp/tachy-job-XXXXXX";

static void keep(void *user, enum tachy_log_level level, const char *msg)
{
    if (level == TACHY_LOG_ERR)
        snprintf(error, sizeof(error), "%s", msg);
}

static const struct tachy_log test_log = {.fn = keep, .max_level = TACHY_LOG_INFO};

// Opens a job with "path=value" settings; they end with NULL. The job is closed by the next call.
static tachy_job *job;

static int open_with(unsigned reads, const char *const settings[])
{
    char path[64];
    tachy_settings *s;
    tachy_job_close(&job);
    error[0] = '\0';
    CHECK_INT(tachy_settings_new(&s, &test_log), TACHY_OK);
    for (; *settings; settings++) {
        const char *equal = strchr(*settings, '=');
        snprintf(path, sizeof(path), "%.*s", (int)(equal - *settings), *settings);
        CHECK_INT(tachy_settings_set(s, path, equal + 1, NULL), TACHY_OK);
    }
    int err = tachy_job_open(&job, tachy_job_params(.task = "segment", .settings = s, .reads = reads, .log = &test_log));
    CHECK((err == TACHY_OK) == (job != NULL));
    tachy_settings_free(&s);
    return err;
}

#define OPEN(...) open_with(0, (const char *const[]){__VA_ARGS__, NULL})

static bool said(const char *part)
{
    bool found = strstr(error, part) != NULL;
    if (!found)
        fprintf(stderr, "wanted \"%s\" in \"%s\"\n", part, error);
    return found;
}

static const char *in_folder(const char *name)
{
    static char paths[4][128];
    static int turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
    return path;
}

static const char *setting(const char *path, const char *value)
{
    static char texts[4][256];
    static int turn;
    char *text = texts[turn++ % 4];
    snprintf(text, sizeof(texts[0]), "%s=%s", path, value);
    return text;
}

static void touch(const char *path)
{
    FILE *f = fopen(path, "w");
    CHECK(f && fputs("x", f) >= 0);
    if (f)
        fclose(f);
}

TEST(names_and_order_of_files)
{
    CHECK_INT(OPEN("input.files=null:64x64@30,frames=5", "output.format=null"), TACHY_OK);
    struct tachy_job_info info = *tachy_job_info(job);
    CHECK_INT(info.nb_files, 1);
    CHECK(!info.files[0].output && !info.to_stdout && !info.overwrite && !info.parallel);

    CHECK_INT(OPEN("input.files=a.mp4", "input.files=b.mkv", "segment.mode=json", "run.parallel=2"), TACHY_ERR_NOT_FOUND);
    CHECK(said("a.mp4: there is no such file"));
    touch(in_folder("a.mp4"));
    touch(in_folder("b.mkv"));
    CHECK_INT(OPEN(setting("input.files", in_folder("a.mp4")), setting("input.files", in_folder("b.mkv")),
                   "segment.mode=json", "run.parallel=2", "output.overwrite=yes"),
              TACHY_OK);
    info = *tachy_job_info(job);
    CHECK_INT(info.nb_files, 2);
    CHECK(info.parallel && info.overwrite);
    CHECK_STR(info.files[0].output, in_folder("a.jsonl"));
    CHECK_STR(info.files[1].output, in_folder("b.jsonl"));
    CHECK_INT(info.files[1].index, 1);

    CHECK_INT(OPEN("input.files=null:64x64", "output.file=-", "output.format=framemd5"), TACHY_OK);
    CHECK(tachy_job_info(job)->to_stdout);
}

// Options requested by name without effect; values from files may be for another task.
TEST(options_that_nobody_reads)
{
    CHECK_INT(OPEN("input.files=null:64x64", "output.format=null", "replay.loop=3"), TACHY_ERR_INVAL);
    CHECK(said("--loop does not belong to the task segment"));
    static const char *const watched[] = {"input.files=null:64x64", "output.format=null", "run.keys=no", NULL};
    CHECK_INT(open_with(0, watched), TACHY_ERR_INVAL);
    CHECK(said("--keys"));
    CHECK_INT(open_with(TACHY_VERB_COMMAND, watched), TACHY_OK);
    CHECK_INT(OPEN("input.files=null:64x64", "output.format=null", "output.crf=20", "model.threads=1", "segment.blur=0.1"),
              TACHY_OK);

    tachy_settings *s;
    const char *yaml = in_folder("all.yaml");
    FILE *f = fopen(yaml, "w");
    CHECK(f && fputs("run: {keys: no}\nprofile: {operators: no}\noutput: {format: 'null'}\n", f) >= 0 && fclose(f) == 0);
    CHECK_INT(tachy_settings_new(&s, &test_log), TACHY_OK);
    CHECK_INT(tachy_settings_load(s, yaml), TACHY_OK);
    CHECK_INT(tachy_settings_set(s, "input.files", "null:64x64", NULL), TACHY_OK);
    tachy_job_close(&job);
    CHECK_INT(tachy_job_open(&job, tachy_job_params(.task = "segment", .settings = s, .log = &test_log)), TACHY_OK);
    tachy_settings_free(&s);
}

TEST(contradictions)
{
    static const struct {
        const char *a, *b, *part;
        int err;
    } cases[] = {
        {"segment.mode=json", "output.format=mp4", "lines of text", TACHY_ERR_INVAL},
        {"output.format=json", "segment.mode=mask", "--mode json", TACHY_ERR_INVAL},
        {"output.overwrite=yes", "output.no_overwrite=yes", "contradict", TACHY_ERR_INVAL},
        {"run.parallel=2", "run.calibrate=yes", "--calibrate", TACHY_ERR_INVAL},
        {"run.parallel=2", "output.resume=yes", "resumed", TACHY_ERR_INVAL},
        {"input.duration=0", "output.format=null", "-t 0", TACHY_ERR_INVAL},
        {"segment.background=blak", "output.format=null", "is not a colour", TACHY_ERR_INVAL},
        {"output.file=-", "run.json=-", "both go to standard output", TACHY_ERR_INVAL},
        {"output.file=-", "run.quiet=no", "give it with -f", TACHY_ERR_INVAL},
        {"run.json=/tmp/tachy-no-such-folder/s.json", "output.format=null", "s.json", TACHY_ERR_NOT_FOUND},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *const all[] = {"input.files=null:64x64", cases[i].a, cases[i].b, NULL};
        CHECK_INT(open_with(TACHY_VERB_COMMAND, all), cases[i].err);
        CHECK(said(cases[i].part));
    }
    CHECK_INT(OPEN("output.format=null"), TACHY_ERR_INVAL);
    CHECK(said("no input"));
    CHECK_INT(OPEN("input.files=null:1x1", "input.files=null:2x2", "output.file=o.mp4"), TACHY_ERR_INVAL);
    CHECK(said("one output for 2 inputs"));
}

TEST(files_are_protected)
{
    const char *in = in_folder("in.mp4"), *out = in_folder("out.mp4"), *link = in_folder("link.mp4");
    touch(in);
    touch(out);
    CHECK_INT(symlink("in.mp4", link), 0);
    CHECK_INT(OPEN(setting("input.files", in), setting("output.file", out)), TACHY_ERR_EXISTS);
    CHECK(said("use -y"));
    CHECK_INT(OPEN(setting("input.files", in), setting("output.file", link), "output.overwrite=yes"), TACHY_ERR_EXISTS);
    CHECK(said("is the input"));
    CHECK_INT(OPEN(setting("input.files", in), setting("output.file", out), setting("run.json", in), "output.overwrite=yes"),
              TACHY_ERR_EXISTS);
    CHECK(said("is an input of this run"));
    CHECK_INT(OPEN(setting("input.files", in), setting("output.file", out), "output.overwrite=yes"), TACHY_OK);
}

TEST(tasks_by_name)
{
    tachy_settings *s;
    CHECK_STR(tachy_task_at(0)->name, "segment");
    for (int i = 0; tachy_task_at(i); i++)
        CHECK(tachy_task_at(i)->summary && tachy_task_at(i)->details && tachy_task_at(i)->examples);
    CHECK_INT(tachy_settings_new(&s, &test_log), TACHY_OK);
    tachy_job_close(&job);
    CHECK_INT(tachy_job_open(&job, tachy_job_params(.task = "segmnt", .settings = s, .log = &test_log)),
              TACHY_ERR_NOT_FOUND);
    CHECK(said("segment"));
    tachy_settings_free(&s);
}

static const struct test_case cases[] = {TEST_CASE(names_and_order_of_files), TEST_CASE(options_that_nobody_reads),
                                         TEST_CASE(contradictions), TEST_CASE(files_are_protected),
                                         TEST_CASE(tasks_by_name)};

int main(void)
{
    char command[128];
    if (!mkdtemp(folder))
        return 1;
    int status = test_run(cases, sizeof(cases) / sizeof(cases[0]));
    tachy_job_close(&job);
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command) == 0 ? status : 1;
}
