// Several outputs as one sink: what each gets, and that one that fails or takes nothing harms no other.
#include "base/clock.h"
#include "base/output_options.h"
#include "media/side.h"
#include "sink/sink_ops.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/tachy-outputs-XXXXXX";
static char logged[1 << 16];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void keep(void *user, enum tachy_log_level level, const char *text)
{
    pthread_mutex_lock(&lock);
    size_t n = strlen(logged);
    snprintf(logged + n, sizeof(logged) - n, "%s%s\n", level == TACHY_LOG_ERR ? "ERROR " : "", text);
    pthread_mutex_unlock(&lock);
}
static const struct tachy_log test_log = {.fn = keep, .max_level = TACHY_LOG_WARN};

static bool said(const char *part)
{
    pthread_mutex_lock(&lock);
    bool found = strstr(logged, part) != NULL;
    pthread_mutex_unlock(&lock);
    return found;
}

static const char *in_folder(const char *name)
{
    static char paths[8][128];
    static int turn;
    char *p = paths[turn++ % 8];
    snprintf(p, sizeof(paths[0]), "%s/%s", folder, name);
    return p;
}

static char *text_of(const char *path)
{
    char *data = NULL;
    size_t size = 0;
    tachy_read_file(path, 1 << 20, &data, &size, &test_log);
    return data;
}

enum { W = 64, H = 48 };

// Frame number n, all of whose pixels say so.
static int write_frame(tachy_sink *s, int n)
{
    char json[32], csv[32];
    tachy_frame *f;
    snprintf(json, sizeof(json), "{\"frame\":%d}", n);
    snprintf(csv, sizeof(csv), "%d\n", n);
    CHECK_INT(tachy_frame_new(&f, &(struct tachy_frame_params){.format = TACHY_PIX_GRAY8, .width = W, .height = H}), TACHY_OK);
    memset(tachy_frame_writable(f, 0), n, (size_t)f->stride[0] * H);
    f->id = f->pts = n;
    f->duration = 1;
    const struct tachy_result r = {.frame_id = n, .pts = n, .json = json, .csv = csv, .csv_columns = "frame\n"};
    int err = tachy_sink_write(s, f, &r);
    tachy_frame_unref(&f);
    return err;
}

static tachy_sink *open_all(const struct tachy_sink_params given[], int nb, bool live)
{
    static const struct tachy_video_info info = {.format = TACHY_PIX_GRAY8, .width = W, .height = H, .time_base = {1, 25},
                                                 .fps = {25, 1}};
    struct tachy_sink_params p[TACHY_MAX_OUTPUTS];
    tachy_sink *s;
    logged[0] = '\0';
    for (int i = 0; i < nb; i++) {
        p[i] = given[i];
        p[i].log = &test_log;
        p[i].overwrite = true;
    }
    CHECK_INT(tachy_sink_open_several(&s, p, nb), TACHY_OK);
    if (s) {
        s->live = live;
        CHECK_INT(tachy_sink_start(s, &info), TACHY_OK);
    }
    return s;
}

static struct tachy_output_stats stats[TACHY_MAX_OUTPUTS];

static int finish(tachy_sink **s)
{
    int err = tachy_sink_finish(*s, false);
    CHECK(tachy_sink_outputs(*s, stats, TACHY_MAX_OUTPUTS) > 0);
    tachy_sink_close(s);
    return err;
}

TEST(each_gets_all)
{
    const struct tachy_sink_params one = {.url = in_folder("one.md5"), .format = "framemd5"};
    const struct tachy_sink_params p[] = {
        {.url = in_folder("a.md5"), .format = "framemd5"}, {.url = in_folder("b.md5"), .format = "framemd5"},
        {.url = in_folder("a.jsonl")},                     {.url = in_folder("a.csv")},
        {.url = "null:sleep_us=2000", .format = "null"}}; // slower than the others: holds them back
    tachy_sink *alone = open_all(&one, 1, false), *s = open_all(p, 5, false);
    CHECK(alone->ops == &tachy_sink_hash); // a list of one is that output itself
    for (int n = 0; n < 30; n++) {
        CHECK_INT(write_frame(alone, n), TACHY_OK);
        CHECK_INT(write_frame(s, n), TACHY_OK);
    }
    CHECK_INT(finish(&alone), TACHY_OK);
    CHECK_INT(finish(&s), TACHY_OK);
    for (int i = 0; i < 5; i++) {
        CHECK_INT(stats[i].frames, 30);
        CHECK_INT(stats[i].shed + stats[i].error, 0);
    }
    char *want = text_of(one.url), *a = text_of(p[0].url), *b = text_of(p[1].url), *json = text_of(p[2].url), *csv = text_of(p[3].url);
    CHECK_STR(a, want);
    CHECK_STR(b, want);
    CHECK(json && !strncmp(json, "{\"frame\":0}\n{\"frame\":1}\n", 24) && strstr(json, "{\"frame\":29}\n"));
    CHECK(csv && !strncmp(csv, "frame\n0\n1\n", 10) && strstr(csv, "\n29\n"));
    char *all[] = {want, a, b, json, csv};
    for (int i = 0; i < 5; i++)
        free(all[i]);
}

TEST(one_fails_the_others_go_on)
{
    const struct tachy_sink_params p[] = {{.url = "/dev/full", .format = "framemd5"},
                                          {.url = in_folder("whole.md5"), .format = "framemd5"}};
    tachy_sink *s = open_all(p, 2, false);
    for (int n = 0; n < 2000; n++) // more than is gathered before it is written
        CHECK_INT(write_frame(s, n), TACHY_OK);
    CHECK(!said("ERROR"));
    CHECK_INT(finish(&s), TACHY_ERR_NO_SPACE);
    CHECK(said("no space is left on the device") && said("/dev/full: failed") && said("ERROR 1 of 2 outputs failed: /dev/full"));
    CHECK_INT(stats[0].error, TACHY_ERR_NO_SPACE);
    CHECK_INT(stats[1].error, TACHY_OK);
    CHECK_INT(stats[1].frames, 2000);
    char *text = text_of(p[1].url);
    CHECK(text && strstr(text, "1999,"));
    free(text);
}

TEST(all_fail)
{
    const struct tachy_sink_params p[] = {{.url = "/dev/full", .format = "json"}, {.url = "/dev/full", .format = "csv"}};
    tachy_sink *s = open_all(p, 2, false);
    int err = TACHY_OK;
    while (err == TACHY_OK) { // they fail on threads of their own, so a few frames later
        static int n;
        err = write_frame(s, n++);
    }
    CHECK_INT(err, TACHY_ERR_NO_SPACE);
    CHECK(said("ERROR all 2 outputs failed"));
    tachy_sink_close(&s);
}

// For a named pipe that holds one frame and not two, so that a writer blocks as soon as two are to be written.
static int open_reader(const char *path)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK);
    CHECK_INT(fcntl(fd, F_SETPIPE_SZ, 4096), 4096);
    return fd;
}

// A reader that never reads, then goes.
TEST(live_sheds_and_names_who_is_stuck)
{
    const struct tachy_sink_params p[] = {{.url = in_folder("fifo"), .format = "rawvideo"}, {.url = "-", .format = "null"}};
    CHECK_INT(mkfifo(p[0].url, 0600), 0);
    int reader = open_reader(p[0].url);
    tachy_sink *s = open_all(p, 2, true);
    int n = 0;
    do {
        CHECK_INT(write_frame(s, n++), TACHY_OK);
        tachy_sleep_until(tachy_now_ns() + 1000000);
        tachy_sink_outputs(s, stats, TACHY_MAX_OUTPUTS);
    } while (!stats[0].shed);
    close(reader);
    CHECK_INT(finish(&s), TACHY_ERR_IO);
    CHECK(said("its reader has gone"));
    CHECK_INT(stats[0].error, TACHY_ERR_IO);
    CHECK_INT(stats[1].frames + stats[1].shed, n);
}

// Two concurrent waits of 2 s: a stop ends both sinks.
TEST(a_stop_gives_up_who_takes_nothing)
{
    int stop = 0;
    const struct tachy_sink_params p[] = {{.url = in_folder("stuck"), .format = "rawvideo", .stop = &stop},
                                          {.url = in_folder("kept.md5"), .format = "framemd5", .stop = &stop}};
    CHECK_INT(mkfifo(p[0].url, 0600), 0);
    int reader = open_reader(p[0].url), n = 0;
    tachy_sink *s = open_all(p, 2, true);
    do {
        CHECK_INT(write_frame(s, n++), TACHY_OK);
        tachy_sleep_until(tachy_now_ns() + 1000000);
        tachy_sink_outputs(s, stats, TACHY_MAX_OUTPUTS);
    } while (!stats[0].shed);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    CHECK_INT(finish(&s), TACHY_ERR_IO);
    CHECK(said("its reader takes nothing"));
    CHECK_INT(stats[1].error, TACHY_OK);
    CHECK_INT(stats[1].frames + stats[1].shed, n);
    close(reader);
}

TEST(without_a_finish_nothing_is_left)
{
    const struct tachy_sink_params p[] = {{.url = in_folder("x.md5"), .format = "framemd5"}, {.url = in_folder("x.jsonl")}};
    tachy_sink *s = open_all(p, 2, false), *clone;
    CHECK_INT(tachy_sink_clone(&clone, s, folder), TACHY_ERR_UNSUPPORTED); // steps are measured with one output
    CHECK_INT(write_frame(s, 0), TACHY_OK);
    tachy_sink_close(&s);
    CHECK(access(p[0].url, F_OK) != 0 && access(p[1].url, F_OK) != 0);
}

TEST(what_is_refused)
{
    tachy_sink *s;
    const struct tachy_sink_params resume[] = {{.url = in_folder("r.mkv"), .resume = true, .log = &test_log},
                                               {.url = in_folder("s.mkv"), .log = &test_log}};
    CHECK_INT(tachy_sink_open_several(&s, resume, 2), TACHY_ERR_INVAL);
    CHECK(said("--resume takes one output"));
    CHECK_INT(tachy_sink_open_several(&s, resume, TACHY_MAX_OUTPUTS + 1), TACHY_ERR_INVAL);
    CHECK(!s);
}

TEST(options_before_a_name)
{
    char v[TACHY_OUTPUT_VALUE];
    CHECK_STR(tachy_output_name("[f=flv:crf=28]rtmp://h/live"), "rtmp://h/live");
    CHECK_STR(tachy_output_name("[Group] film.mkv"), "[Group] film.mkv"); // a name
    CHECK_STR(tachy_output_name("[f=flv"), "[f=flv");
    CHECK(tachy_output_option("[f=flv:crf=28]x", "crf", v, sizeof(v)));
    CHECK_STR(v, "28");
    CHECK(tachy_output_option("[filter=scale=320\\:-2:f=nut]-", "filter", v, sizeof(v)));
    CHECK_STR(v, "scale=320:-2");
    CHECK(!tachy_output_option("[f=flv]x", "crf", v, sizeof(v)) && !tachy_output_option("x", "f", v, sizeof(v)));
    CHECK_INT(tachy_output_check_options("[f=flv:crf=28]x", &test_log), TACHY_OK);
    CHECK_INT(tachy_output_check_options("x", &test_log), TACHY_OK);
    static const char *const wrong[] = {"[f=flv:quality=3]x", "[f=]x", "[f=flv]", "[f=flv:crf]x"};
    for (int i = 0; i < 4; i++)
        CHECK_INT(tachy_output_check_options(wrong[i], &test_log), TACHY_ERR_INVAL);
}

static void put_packet(tachy_side *s, int64_t dts)
{
    AVPacket *p = av_packet_alloc();
    CHECK(p && av_new_packet(p, 8) == 0);
    p->dts = p->pts = dts;
    CHECK_INT(tachy_side_put(s, p), TACHY_OK);
    av_packet_free(&p);
}

static int count_packets(tachy_side *s)
{
    AVPacket *p = av_packet_alloc();
    int n = 0;
    while (tachy_side_take(s, 1e9, p) == TACHY_OK) {
        CHECK_INT(p->dts, n++);
        av_packet_unref(p);
    }
    CHECK_INT(tachy_side_take(s, 1e9, p), TACHY_ERR_EOF);
    av_packet_free(&p);
    return n;
}

TEST(each_copy_gets_all_sound)
{
    tachy_side *s, *copies[3];
    CHECK_INT(tachy_side_new(&s), TACHY_OK);
    s->streams = calloc(1, sizeof(*s->streams));
    s->streams[0] = (struct tachy_side_stream){.par = avcodec_parameters_alloc(), .time_base = {1, 10}};
    s->streams[0].par->codec_type = AVMEDIA_TYPE_AUDIO;
    s->nb_streams = 1;
    put_packet(s, 0);
    CHECK_INT(tachy_side_fork(s, copies, 3), TACHY_OK);
    put_packet(s, 1);
    tachy_side_unref(&copies[1]); // its output has failed
    put_packet(s, 2);
    tachy_side_end(s);
    CHECK_INT(count_packets(s), 0);
    CHECK_INT(count_packets(copies[0]), 3);
    tachy_side_unref(&s);
    CHECK_INT(count_packets(copies[2]), 3);
    tachy_side_unref(&copies[0]);
    tachy_side_unref(&copies[2]);
}

static const struct test_case cases[] = {
    TEST_CASE(each_gets_all), TEST_CASE(one_fails_the_others_go_on), TEST_CASE(all_fail),
    TEST_CASE(live_sheds_and_names_who_is_stuck), TEST_CASE(a_stop_gives_up_who_takes_nothing),
    TEST_CASE(without_a_finish_nothing_is_left), TEST_CASE(what_is_refused), TEST_CASE(options_before_a_name),
    TEST_CASE(each_copy_gets_all_sound)};

int main(void)
{
    char command[128];
    if (!mkdtemp(folder))
        return 1;
    int status = test_run(cases, sizeof(cases) / sizeof(cases[0]));
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command) == 0 ? status : 1;
}
