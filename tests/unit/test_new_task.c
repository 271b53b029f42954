#include "test.h"

#include "media/media.h"

#include <math.h>
#include <tachy/job.h>
#include <tachy/model.h>
#include <tachy/source.h>
#include <unistd.h>

// A task that is added as docs/task.md says: blur_faces.patch, applied when this program is built. The registry of tasks
// is compiled again with its line.

static void print(void *user, enum tachy_log_level level, const char *msg) { fprintf(stderr, "     %s\n", msg); }
static const struct tachy_log say = {.fn = print, .max_level = TACHY_LOG_WARN};

static tachy_frame *read_picture(const char *path)
{
    tachy_source *s = NULL;
    tachy_frame *f = NULL;
    CHECK_INT(tachy_source_open(&s, &(struct tachy_source_params){.url = path, .log = &say}), TACHY_OK);
    if (s)
        CHECK_INT(tachy_source_read(s, &f), TACHY_OK);
    tachy_source_close(&s);
    return f;
}

// Mean difference of neighbours in a row of green samples: what a blur takes away.
static double detail(const tachy_frame *f, int x0, int y0, int x1, int y1)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    int step = d->components[0];
    double sum = 0;
    for (int y = y0; y < y1; y++) {
        const uint8_t *row = f->data[0] + y * f->stride[0] + (step > 1);
        for (int x = x0; x < x1; x++)
            sum += fabs((double)row[(x + 1) * step] - row[x * step]);
    }
    return sum / ((x1 - x0) * (y1 - y0));
}

static void blur(const char *in, const char *out)
{
    tachy_settings *s = NULL;
    tachy_job *j = NULL;
    CHECK_INT(tachy_settings_new(&s, &say), TACHY_OK);
    const char *const with[][2] = {{"input.files", in}, {"output.file", out}, {"run.quiet", "yes"}};
    for (size_t i = 0; i < 2; i++)
        CHECK_INT(tachy_settings_set(s, with[i][0], with[i][1], "test"), TACHY_OK);
    CHECK_INT(tachy_job_open(&j, tachy_job_params(.task = "blur-faces", .settings = s, .log = &say)), TACHY_OK);
    if (j)
        CHECK_INT(tachy_job_run(j), TACHY_OK);
    tachy_job_close(&j);
    tachy_settings_free(&s);
}

// The astronaut's face becomes smooth; her suit and the flag stay as they are.
TEST(faces_are_blurred)
{
    char in[512], out[] = "/tmp/tachy-new-task-XXXXXX.png";
    snprintf(in, sizeof(in), "%s/media/astronaut.png", getenv("TACHY_DEPS"));
    CHECK(mkstemps(out, 4) >= 0);
    unlink(out);
    blur(in, out);
    tachy_frame *before = read_picture(in), *after = read_picture(out);
    if (before && after) {
        CHECK(before->width == after->width && before->format == after->format);
        CHECK(detail(after, 200, 90, 250, 150) < 0.4 * detail(before, 200, 90, 250, 150));
        CHECK(fabs(detail(after, 100, 300, 400, 500) - detail(before, 100, 300, 400, 500)) < 0.01);
        CHECK(fabs(detail(after, 10, 50, 90, 200) - detail(before, 10, 50, 90, 200)) < 0.01);
    }
    tachy_frame_unref(&before);
    tachy_frame_unref(&after);
    unlink(out);
}

// The verb is there as those of the house are.
TEST(it_is_listed)
{
    bool found = false;
    for (int i = 0; tachy_task_at(i); i++)
        found |= !strcmp(tachy_task_at(i)->name, "blur-faces");
    CHECK(found);
    CHECK(tachy_option_find("blur-faces.blur", NULL) != NULL);
}

int main(void)
{
    static const struct test_case cases[] = {TEST_CASE(it_is_listed), TEST_CASE(faces_are_blurred)};
    tachy_model *m = NULL;
    if (tachy_model_open(&m, &(struct tachy_model_params){.name = "face", .fetch = true, .log = &say}) < 0)
        SKIP("the model face is not here");
    tachy_model_close(&m);
    return test_run(cases, TACHY_ARRAY_SIZE(cases));
}
