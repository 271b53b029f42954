#include "counting.h"

#include "postprocess/text.h"

#include <jansson.h>
#include <locale.h>
#include <sys/stat.h>
#include <tachy/tachy.h>

// A program that has set a locale with a decimal comma gets the same text for programs, and the same options.

static char folder[64] = "/tmp/tachy-locale-XXXXXX";

// A system need not have it: it is made here.
static bool use_german(void)
{
    char command[256];
    snprintf(command, sizeof(command), "localedef --no-archive -i de_DE -f UTF-8 %s/de_DE.UTF-8 2>%s/errors", folder, folder);
    setenv("LOCPATH", folder, 1);
    return system(command) == 0 && setlocale(LC_ALL, "de_DE.UTF-8") && localeconv()->decimal_point[0] == ',';
}

static const char *in_folder(const char *name)
{
    static char path[128];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

TEST(numbers_of_options)
{
    tachy_sink *s = NULL;
    struct tachy_video_info i = {.format = TACHY_PIX_YUV420P, .width = 32, .height = 32, .time_base = {1, 25}, .fps = {25, 1}};
    CHECK_INT(tachy_sink_open(&s, tachy_sink_params(.url = in_folder("a.mkv"), .codec = "libx264", .crf = "18.5")), TACHY_OK);
    CHECK_INT(tachy_sink_start(s, &i), TACHY_OK);
    tachy_sink_close(&s);
    tachy_settings *set = NULL;
    CHECK_INT(tachy_settings_new(&set, NULL), TACHY_OK);
    CHECK_INT(tachy_settings_set(set, "input.start", "1.5", NULL), TACHY_OK);
    CHECK(tachy_settings_float(set, "input.start") == 1.5);
    tachy_settings_free(&set);
}

TEST(text_for_programs)
{
    struct tachy_text t = {0};
    tachy_text_add(&t, "%.3f", 1.5);
    CHECK_STR(t.p, "1.500");
    tachy_text_free(&t);
    char *text = tachy_asprintf("%g", 0.25);
    CHECK_STR(text, "0.25");
    tachy_free(text);
    const struct tachy_snapshot s = {.summary = {.fps = 12.5}};
    CHECK_INT(tachy_snapshot_metrics(&text, &s), TACHY_OK);
    CHECK(strstr(text, "tachy_run_frames_per_second 12.5\n") && !strstr(text, "12,5"));
    tachy_free(text);
}

// A run whose profile is written.
TEST(files_for_programs)
{
    tachy_profile *p = NULL;
    tachy_task *task = task_new(never);
    struct tachy_summary sum;
    struct tachy_run_params r = {.task = task, .workers = 1};
    CHECK_INT(tachy_profile_open(&p, tachy_profile_params(.gpu_interval_ms = -1)), TACHY_OK);
    CHECK_INT(tachy_source_open(&r.source, tachy_source_params(.url = "null:16x2@10,frames=20,format=gray")), TACHY_OK);
    CHECK_INT(tachy_sink_open(&r.sink, tachy_sink_params(.format = "null")), TACHY_OK);
    r.profile = p;
    CHECK_INT(tachy_run(&r, &sum), TACHY_OK);
    tachy_sink_close(&r.sink);
    tachy_source_close(&r.source);
    test_task_free(task);

    json_error_t e;
    CHECK_INT(tachy_profile_write_trace(p, in_folder("trace.json")), TACHY_OK);
    json_t *o = json_load_file(in_folder("trace.json"), 0, &e);
    CHECK(json_is_object(o));
    json_decref(o);
    CHECK_INT(tachy_profile_write_json(p, in_folder("profile.json")), TACHY_OK);
    o = json_load_file(in_folder("profile.json"), 0, &e);
    CHECK(json_is_object(o));
    json_decref(o);
    CHECK_INT(tachy_profile_write_csv(p, in_folder("spans.csv")), TACHY_OK);
    char line[256];
    FILE *f = fopen(in_folder("spans.csv"), "r");
    int lines = 0;
    while (f && fgets(line, sizeof(line), f)) {
        int commas = 0;
        for (const char *c = line; *c; c++)
            commas += *c == ',';
        CHECK_INT(commas, 6);
        lines++;
    }
    CHECK(lines > 20);
    if (f)
        fclose(f);
    tachy_profile_close(&p);
    CHECK(localeconv()->decimal_point[0] == ','); // the program's own is as it was
    snprintf(line, sizeof(line), "%.1f", 1.5);
    CHECK_STR(line, "1,5");
}

static const struct test_case cases[] = {TEST_CASE(numbers_of_options), TEST_CASE(text_for_programs),
                                         TEST_CASE(files_for_programs)};

int main(void)
{
    char command[128];
    if (!mkdtemp(folder))
        return 1;
    bool german = use_german();
    int status = german ? test_run(cases, sizeof(cases) / sizeof(cases[0])) : 77;
    if (!german)
        printf("skipped: localedef cannot make de_DE.UTF-8 (Debian's package `locales`)\n");
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command) == 0 ? status : 1;
}
