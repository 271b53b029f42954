#include "base/base.h"
#include "base/mix.h"
#include "postprocess/mask.h"
#include "sink/record.h"
#include "sink/part.h"
#include "source/source_ops.h"
#include "test.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

// The parts of resuming, one by one: packets on disk, the job folder, a source that is entered in
// the middle, the state of smoothing. Whole runs: tests/e2e/test_resume.py.

static char dir[] = P_tmpdir "/tachy-resume-XXXXXX";
static char last[1024];

static void note(void *user, enum tachy_log_level level, const char *msg)
{
    if (level == TACHY_LOG_ERR)
        snprintf(last, sizeof(last), "%s", msg);
}

static const struct tachy_log log_ = {.fn = note};

static const char *in_dir(const char *name)
{
    static char path[4][300];
    static int n;
    snprintf(path[++n % 4], sizeof(path[0]), "%s/%s", dir, name);
    return path[n % 4];
}

// ---- parts

static uint8_t random_byte(void) { return (uint8_t)(rand() >> 7); }

static AVPacket *packet(int size, int64_t pts, int64_t dts, int side)
{
    AVPacket *p = av_packet_alloc();
    CHECK_INT(av_new_packet(p, size), 0);
    for (int i = 0; i < size; i++)
        p->data[i] = random_byte();
    p->pts = pts;
    p->dts = dts;
    p->duration = 40;
    p->flags = size % 2 ? AV_PKT_FLAG_KEY : 0;
    for (int i = 0; i < side; i++) {
        uint8_t *d = av_packet_new_side_data(
            p, i ? AV_PKT_DATA_CPB_PROPERTIES : AV_PKT_DATA_QUALITY_STATS, 9 + (size_t)i);
        memset(d, 7 + i, 9 + (size_t)i);
    }
    return p;
}

static bool same_packet(const AVPacket *a, const AVPacket *b)
{
    bool same = a->size == b->size && !memcmp(a->data, b->data, (size_t)a->size) &&
                a->pts == b->pts && a->dts == b->dts && a->duration == b->duration &&
                a->flags == b->flags && a->side_data_elems == b->side_data_elems;
    for (int i = 0; same && i < a->side_data_elems; i++)
        same = a->side_data[i].type == b->side_data[i].type &&
               a->side_data[i].size == b->side_data[i].size &&
               !memcmp(a->side_data[i].data, b->side_data[i].data, a->side_data[i].size);
    return same;
}

enum { PACKETS = 5 };

static void write_part(const char *path, AVPacket *const packets[PACKETS])
{
    struct tachy_part_writer w;
    uint8_t extradata[] = {1, 2, 3};
    AVCodecContext *ctx = avcodec_alloc_context3(NULL);
    CHECK_INT(tachy_part_create(&w, path, &log_), TACHY_OK);
    for (int i = 0; i < PACKETS; i++)
        CHECK_INT(tachy_part_add(&w, packets[i]), TACHY_OK);
    ctx->extradata = extradata;
    ctx->extradata_size = sizeof(extradata);
    CHECK(access(path, F_OK) != 0); // it has its name when it is whole
    CHECK_INT(tachy_part_finish(&w, ctx), TACHY_OK);
    CHECK(access(path, F_OK) == 0);
    ctx->extradata = NULL;
    avcodec_free_context(&ctx);
}

// Reads a part; returns what the reading ended with. *n: packets that were as they had been.
static int read_part(const char *path, AVPacket *const packets[PACKETS], int *n)
{
    struct tachy_part_reader r;
    AVPacket *p = av_packet_alloc();
    int err = tachy_part_open(&r, path, &log_);
    for (*n = 0; err == TACHY_OK && (err = tachy_part_read(&r, p)) == TACHY_OK; (*n)++) {
        CHECK(*n < PACKETS && same_packet(p, packets[*n]));
        av_packet_unref(p);
    }
    if (err == TACHY_ERR_EOF)
        CHECK(r.extradata_size == 3 && !memcmp(r.extradata, "\1\2\3", 3));
    tachy_part_close(&r);
    av_packet_free(&p);
    return err;
}

TEST(a_part_gives_back_what_was_put_in)
{
    const char *path = in_dir("part-000000");
    AVPacket *packets[PACKETS];
    int n;
    for (int i = 0; i < PACKETS; i++)
        packets[i] = packet(i * 13, i ? i * 40 : AV_NOPTS_VALUE, i * 40 - 80, i % 3);
    write_part(path, packets);
    CHECK_INT(read_part(path, packets, &n), TACHY_ERR_EOF);
    CHECK_INT(n, PACKETS);

    // Every changed byte and every truncation is noticed.
    char *data;
    size_t size;
    CHECK_INT(tachy_read_file(path, 1 << 20, &data, &size, &log_), TACHY_OK);
    for (size_t i = 0; i < size; i++) {
        data[i] ^= (char)(1 << i % 8);
        CHECK_INT(tachy_write_file(path, data, size, &log_), TACHY_OK);
        CHECK_INT(read_part(path, packets, &n), TACHY_ERR_FORMAT);
        data[i] ^= (char)(1 << i % 8);
        CHECK_INT(tachy_write_file(path, data, i, &log_), TACHY_OK);
        CHECK_INT(read_part(path, packets, &n), TACHY_ERR_FORMAT);
    }
    CHECK(strstr(last, "is damaged") && strstr(last, "start over"));
    tachy_free(data);
    for (int i = 0; i < PACKETS; i++)
        av_packet_free(&packets[i]);
    unlink(path);
}

// ---- the job folder

TEST(a_job_is_one_process_s)
{
    struct tachy_record *a, *b;
    const char *out = in_dir("out.mp4"), *folder = in_dir("out.mp4.tachy");
    CHECK_INT(tachy_record_open(&a, out, &log_), TACHY_OK);
    CHECK(!a->begun);
    CHECK_INT(tachy_record_open(&b, out, &log_), TACHY_ERR_AGAIN);
    CHECK(!b && strstr(last, "another process"));
    json_object_set_new(a->record, "frames", json_integer(5));
    CHECK_INT(tachy_record_save(a), TACHY_OK);
    tachy_record_close(&a);
    CHECK(!a && access(folder, F_OK) == 0); // what is recorded stays

    CHECK_INT(tachy_record_open(&b, out, &log_), TACHY_OK);
    CHECK(b->begun);
    CHECK_INT(json_integer_value(json_object_get(b->record, "frames")), 5);
    char *part = tachy_record_name(b, "part", 3), *other = tachy_asprintf("%s/notes.txt", folder);
    CHECK(strstr(part, "/out.mp4.tachy/part-000003"));
    CHECK_INT(tachy_record_write(b, part, "x", 1), TACHY_OK);
    CHECK_INT(tachy_write_file(other, "mine", 4, &log_), TACHY_OK);
    tachy_record_remove(b);
    CHECK(access(part, F_OK) != 0 && access(other, F_OK) == 0); // somebody else's file is left
    tachy_record_close(&b);
    unlink(other);
    rmdir(folder);
    free(part);
    free(other);
}

TEST(a_folder_without_a_record_goes)
{
    struct tachy_record *j;
    CHECK_INT(tachy_record_open(&j, in_dir("none.mp4"), &log_), TACHY_OK);
    CHECK(access(in_dir("none.mp4.tachy"), F_OK) == 0);
    tachy_record_close(&j);
    CHECK(access(in_dir("none.mp4.tachy"), F_OK) != 0);
    CHECK(tachy_record_dir("-") == NULL);
    CHECK_INT(tachy_record_open(&j, in_dir("no/such/out.mp4"), &log_), TACHY_ERR_NOT_FOUND);
}

// The lock of a killed process is nobody's.
TEST(a_killed_process_holds_no_lock)
{
    const char *out = in_dir("k.mp4");
    int pipe_[2];
    char c;
    CHECK_INT(pipe(pipe_), 0);
    pid_t child = fork();
    if (!child) {
        struct tachy_record *j;
        if (tachy_record_open(&j, out, NULL) == TACHY_OK && tachy_record_save(j) == TACHY_OK &&
            write(pipe_[1], "x", 1) == 1)
            pause();
        _exit(1);
    }
    CHECK_INT(read(pipe_[0], &c, 1), 1);
    struct tachy_record *j;
    CHECK_INT(tachy_record_open(&j, out, &log_), TACHY_ERR_AGAIN);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    CHECK_INT(tachy_record_open(&j, out, &log_), TACHY_OK);
    CHECK(j && j->begun);
    tachy_record_remove(j);
    tachy_record_close(&j);
    close(pipe_[0]);
    close(pipe_[1]);
}

// ---- a source that is entered in the middle

struct seen {
    int64_t pts, duration;
    uint64_t pixels;
    int discontinuity;
};

static struct seen look(const tachy_frame *f)
{
    uint64_t h = 0;
    for (int y = 0; y < f->height; y++)
        h = tachy_mix(h, f->data[0] + y * f->stride[0], (size_t)f->width);
    return (struct seen){f->pts, f->duration, h, f->discontinuity};
}

static bool same(struct seen a, struct seen b)
{
    return a.pts == b.pts && a.duration == b.duration && a.pixels == b.pixels &&
           a.discontinuity == b.discontinuity;
}

enum { MOST = 200 };

static int read_all(tachy_source *s, struct seen *v, int64_t first)
{
    int n = 0;
    tachy_frame *f;
    while (n < MOST && tachy_source_read(s, &f) == TACHY_OK) {
        CHECK_INT(f->id, first + n);
        v[n++] = look(f);
        tachy_frame_unref(&f);
    }
    return n;
}

static void check_entering(const struct tachy_source_params *p)
{
    struct seen all[MOST], rest[MOST];
    tachy_source *s;
    CHECK_INT(tachy_source_open(&s, p), TACHY_OK);
    int n = read_all(s, all, 0);
    CHECK(n > 20);
    static const int at[] = {1, 2, 7, 19};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(at) && n > 20; i++) {
        int k = i == 3 ? n - 1 : at[i];
        CHECK_INT(tachy_source_seek(s, k, all[k].pts), TACHY_OK);
        CHECK_INT(read_all(s, rest, k), n - k);
        for (int j = k; j < n; j++)
            CHECK(same(rest[j - k], all[j]));
    }
    CHECK_INT(tachy_source_seek(s, 0, INT64_MIN), TACHY_OK); // from the beginning
    CHECK_INT(read_all(s, rest, 0), n);
    for (int j = 0; j < n; j++)
        CHECK(same(rest[j], all[j]));
    tachy_source_close(&s);
}

// A small one of the sample clip, with B-frames and several keyframes; absent without the sample.
static const char *sample(void)
{
    static char path[100], command[1000];
    if (!*path) {
        snprintf(path, sizeof(path), "%s/small.mp4", dir);
        snprintf(command, sizeof(command), "ffmpeg -v error -nostdin -i '%s/.deps/media/sample.mp4' -an "
                 "-vf scale=320:-2 -c:v libx264 -preset veryfast -bf 3 -g 50 %s", getenv("TACHY_TEST_ROOT"), path);
        CHECK(system(command) == 0 || access(path, F_OK) != 0);
    }
    return path;
}

TEST(frames_behind_a_seek_are_those_of_the_whole)
{
    if (access(sample(), F_OK) != 0)
        return;
    check_entering(tachy_source_params(.url = sample(), .max_frames = 60, .log = &log_));
    check_entering(tachy_source_params(.url = sample(), .start = 1.3, .duration = 2, .log = &log_));
    check_entering(tachy_source_params(.url = sample(), .every_nth = 3, .log = &log_));
}

TEST(what_cannot_be_entered_says_so)
{
    tachy_source *s;
    tachy_frame *f;
    const struct tachy_source_params p[] = {{.url = "null:320x240@30,frames=60"},
                                            {.url = sample(), .rate = {30, 1}}};
    for (size_t i = 0; i < (access(sample(), F_OK) ? 1 : 2); i++) {
        CHECK_INT(tachy_source_open(&s, &p[i]), TACHY_OK);
        CHECK_INT(tachy_source_seek(s, 10, 10), TACHY_ERR_UNSUPPORTED);
        CHECK_INT(tachy_source_read(s, &f), TACHY_OK); // and stays in place
        CHECK_INT(f->id, 0);
        tachy_frame_unref(&f);
        tachy_source_close(&s);
    }
}

// ---- smoothing

static void random_plane(uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = random_byte();
}

TEST(smoothing_goes_on_from_its_state)
{
    enum { W = 33, H = 17, N = W * H };
    uint8_t mask[N], guide[N], other[N];
    tachy_smooth *a, *b;
    CHECK_INT(tachy_smooth_open(&a, W, H, 0.7f), TACHY_OK);
    CHECK_INT(tachy_smooth_open(&b, W, H, 0.7f), TACHY_OK);
    size_t size = tachy_smooth_state_size(a);
    uint8_t *state = malloc(size);
    for (int frame = 0; frame < 8; frame++) { // frame 0: before the first
        tachy_smooth_save(a, state);
        CHECK_INT(tachy_smooth_load(b, state, size), TACHY_OK);
        random_plane(mask, N);
        random_plane(guide, N);
        memcpy(other, mask, N);
        tachy_smooth_apply(a, mask, W, guide, W, frame == 5);
        tachy_smooth_apply(b, other, W, guide, W, frame == 5);
        CHECK(!memcmp(mask, other, N));
    }
    CHECK_INT(tachy_smooth_load(b, state, size - 1), TACHY_ERR_FORMAT);
    state[0] = 2;
    CHECK_INT(tachy_smooth_load(b, state, size), TACHY_ERR_FORMAT);
    free(state);
    tachy_smooth_close(&a);
    tachy_smooth_close(&b);
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    static const struct test_case cases[] = {
        TEST_CASE(a_part_gives_back_what_was_put_in), TEST_CASE(a_job_is_one_process_s),
        TEST_CASE(a_folder_without_a_record_goes), TEST_CASE(a_killed_process_holds_no_lock),
        TEST_CASE(frames_behind_a_seek_are_those_of_the_whole),
        TEST_CASE(what_cannot_be_entered_says_so), TEST_CASE(smoothing_goes_on_from_its_state),
    };
    int status = test_run(cases, TACHY_ARRAY_SIZE(cases));
    char cmd[100];
    snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
    return system(cmd) == 0 ? status : 1;
}
