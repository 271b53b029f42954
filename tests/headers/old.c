#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tachy/run.h>
#include <tachy/settings.h>

// Runs a keyer with structs as in this program's headers. The library must not touch memory after them.

enum { AFTER = 16384, MARK = 0x5a };

#define CHECK(cond)                                                                                                    \
    do {                                                                                                               \
        if (!(cond)) {                                                                                                 \
            fprintf(stderr, "failed: %s\n", #cond);                                                                    \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static void print(void *user, enum tachy_log_level level, const char *msg)
{
    (void)user, (void)level;
    fprintf(stderr, "%s\n", msg);
}

int main(void)
{
    static const struct tachy_log log = {.fn = print};
    static struct {
        struct tachy_run_params is;
        unsigned char after[AFTER];
    } params;
    static struct {
        struct tachy_summary is;
        unsigned char after[AFTER];
    } summary;
    memset(params.after, MARK, AFTER);
    memset(&summary, MARK, sizeof(summary));

    tachy_settings *settings;
    CHECK(tachy_settings_new(&settings, &log) == TACHY_OK);
    CHECK(tachy_settings_set(settings, "key", "#00b140", "test") == TACHY_OK);
    params.is.log = &log;
    CHECK(tachy_source_open(&params.is.source, tachy_source_params(.url = "null:64x48@30,frames=30", .log = &log)) == TACHY_OK);
    CHECK(tachy_task_open(&params.is.task, "segment", settings, &log) == TACHY_OK);
    CHECK(tachy_sink_open(&params.is.sink, tachy_sink_params(.url = "-", .format = "null", .log = &log)) == TACHY_OK);
    CHECK(tachy_run(&params.is, &summary.is) == TACHY_OK);
    CHECK(summary.is.frames == 30 && summary.is.nb_steps > 0 && summary.is.latency.max_ms > 0);
    for (int i = 0; i < AFTER; i++)
        CHECK(summary.after[i] == MARK);

    char *json;
    CHECK(tachy_summary_json(&json, &summary.is, NULL) == TACHY_OK); // of the fields that this program knows
    CHECK(strstr(json, "\"frames\": 30"));
    tachy_free(json);
    printf("%zu %zu\n", sizeof(params.is), sizeof(summary.is));
    tachy_task_close(&params.is.task);
    tachy_sink_close(&params.is.sink);
    tachy_source_close(&params.is.source);
    tachy_settings_free(&settings);
    return 0;
}
