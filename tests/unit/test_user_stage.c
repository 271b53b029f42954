// Stages of programs: refusals, and the values of a frame.
#include "test.h"

#include "stage/stage.h"

#include <stdlib.h>
#include <unistd.h>

static char said[256];
static void on_message(void *user, enum tachy_log_level level, const char *msg)
{
    snprintf(said, sizeof(said), "%s", msg);
}
static const struct tachy_log logger = {.fn = on_message, .max_level = TACHY_LOG_ERR};

static int run(void *priv, void *state, struct tachy_item *item) { return TACHY_OK; }
static int open_nothing(void **priv, const struct tachy_log *log) { return TACHY_ERR_NOT_FOUND; }
static int state_open(void *priv, const struct tachy_video_info *in, void **state) { return TACHY_OK; }
static int state_save(const void *state, void **data, size_t *size) { return TACHY_ERR_NOMEM; }
static void state_close(void *state) {}

#define CHECK_TEXT(where, text) CHECK(strstr(where, text) || !fprintf(stderr, "\"%s\" has no \"%s\"\n", where, text))
#define DEF(...) {.version = TACHY_STAGE_VERSION, .run = run, __VA_ARGS__}
#define REFUSED(code, text, ...)                                                                                       \
    do {                                                                                                               \
        static const struct tachy_stage_def def_ = __VA_ARGS__;                                                        \
        said[0] = '\0';                                                                                                \
        CHECK_INT(tachy_stage_register(&def_, &logger), code);                                                         \
        CHECK_TEXT(said, text);                                                                                        \
    } while (0)

TEST(refuses)
{
    REFUSED(TACHY_ERR_INVAL, "another version", {.version = TACHY_STAGE_VERSION + 1, .name = "a", .run = run});
    REFUSED(TACHY_ERR_INVAL, "a function is missing", {.version = TACHY_STAGE_VERSION, .name = "a"});
    REFUSED(TACHY_ERR_INVAL, "name", DEF(.name = NULL));
    REFUSED(TACHY_ERR_INVAL, "name", DEF(.name = ""));
    REFUSED(TACHY_ERR_INVAL, "name", DEF(.name = "./a"));
    REFUSED(TACHY_ERR_INVAL, "ordered", DEF(.name = "a", .state_open = state_open, .state_close = state_close));
    REFUSED(TACHY_ERR_INVAL, "missing", DEF(.name = "a", .flags = TACHY_STAGE_ORDERED, .state_open = state_open));
    REFUSED(TACHY_ERR_INVAL, "missing", DEF(.name = "a", .state_save = state_save));
}

static int use(const char *stage, const char *more)
{
    tachy_settings *s = NULL;
    tachy_task *t = NULL;
    said[0] = '\0';
    CHECK_INT(tachy_settings_new(&s, &logger), TACHY_OK);
    CHECK_INT(tachy_settings_set(s, "task.stages", stage, NULL), TACHY_OK);
    CHECK_INT(tachy_settings_set(s, "model.provider", "null", NULL), TACHY_OK);
    if (more)
        CHECK_INT(tachy_settings_set(s, "gpu.device", more, NULL), TACHY_OK);
    int err = tachy_task_open(&t, "segment", s, &logger);
    tachy_task_close(&t);
    tachy_settings_free(&s);
    return err;
}

TEST(names)
{
    static const struct tachy_stage_def one = DEF(.name = "one"), other = DEF(.name = "one"),
                                        broken = DEF(.name = "broken", .open = open_nothing);
    CHECK_INT(tachy_stage_register(&one, &logger), TACHY_OK);
    CHECK_INT(tachy_stage_register(&one, &logger), TACHY_OK); // again
    CHECK_INT(tachy_stage_register(&other, &logger), TACHY_ERR_STATE);
    CHECK_TEXT(said, "stage one: another one has this name");
    CHECK_INT(tachy_stage_register(&broken, &logger), TACHY_OK);
    CHECK_INT(use("one", NULL), TACHY_OK);
    CHECK_INT(use("broken", NULL), TACHY_ERR_NOT_FOUND);
    CHECK_TEXT(said, "stage broken: cannot be opened");
    CHECK_INT(use("two", NULL), TACHY_ERR_NOT_FOUND);
    CHECK_TEXT(said, "stage two: there is none of this name; a library is named with its path (./two.so)");
    CHECK_INT(use("/nowhere/two.so", NULL), TACHY_ERR_UNAVAILABLE);
    CHECK_TEXT(said, "stage /nowhere/two.so: cannot be loaded");
    CHECK_INT(use("./libm.so.6", NULL), TACHY_ERR_UNAVAILABLE);
}

TEST(values)
{
    struct tachy_item item = {.result = {.frame_id = 3}};
    char names[TACHY_MAX_VALUES + 1][4];
    for (int i = 0; i <= TACHY_MAX_VALUES; i++) {
        snprintf(names[i], sizeof(names[i]), "v%d", i);
        CHECK_INT(tachy_item_set_value(&item, names[i], i), i < TACHY_MAX_VALUES ? TACHY_OK : TACHY_ERR_LIMIT);
    }
    CHECK_INT(tachy_item_set_value(&item, "v2", 0.5), TACHY_OK);
    const struct tachy_result *r = tachy_item_result(&item);
    CHECK_INT(r->nb_values, TACHY_MAX_VALUES);
    for (int i = 0; i < r->nb_values; i++)
        CHECK(!strcmp(r->values[i].name, names[i]) && r->values[i].value == (i == 2 ? 0.5 : i));
    item.result = (struct tachy_result){0}; // as the executor begins with the next frame
    CHECK_INT(tachy_item_set_value(&item, "x", 1), TACHY_OK);
    CHECK(item.result.nb_values == 1 && !strcmp(item.result.values[0].name, "x"));
}

// Path of the task segment's model; tools/setup installs it.
static bool find_model(void)
{
    char dir[4000], file[4096];
    snprintf(dir, sizeof(dir), "%s/models", getenv("TACHY_DEPS") ? getenv("TACHY_DEPS") : ".deps");
    setenv("TACHY_MODELS", dir, 0);
    snprintf(file, sizeof(file), "%s/selfie.onnx", getenv("TACHY_MODELS"));
    return access(file, R_OK) == 0;
}

int main(void)
{
    static const struct test_case cases[] = {TEST_CASE(refuses), TEST_CASE(values), TEST_CASE(names)};
    bool model = find_model();
    if (!model)
        printf("skipped in part: the model selfie is missing (./tools/setup)\n");
    int status = test_run(cases, model ? 3 : 2);
    return status || model ? status : 77;
}
