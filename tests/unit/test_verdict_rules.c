#include "test.h"

#include "base/base.h"
#include "profile/energy.h"
#include "profile/system.h"
#include "rows.h"
#include "profile/verdict.h"

#include <math.h>
#include <sys/stat.h>
#include <tachy/common.h>
#include <unistd.h>

// The rules on figures that are made up: words and evidence, and the borders between rules.
// test_verdict.c has the runs.

// 100 frames in 10 s on 4 cores, nobody waits for anything but the part that is named.
static struct tachy_verdict_in quiet(void)
{
    return (struct tachy_verdict_in){
        .steps = test_table_of_rows(),
        .encode = TEST_STEP_ENCODE,
        .batched = -1,
        .seconds = 10,
        .frames = 1000,
        .cores = 4,
        .source = {1, 2, 1, 0},
        .work = {4, 8, 2, 0},
        .sink = {1, 1, 0.5, 0},
        .held_back_s = 8,
        .starved_s = 9,
        .step_busy_s = {2, 1, 5, 1, 1, 1},
        .process_cpu_s = 4,
    };
}

static struct tachy_verdict told(const struct tachy_verdict_in *in, enum tachy_limit limit, double gain)
{
    struct tachy_verdict v;
    tachy_verdict(&v, in);
    CHECK_STR(tachy_limit_name(v.limit), tachy_limit_name(limit));
    if (fabs(v.expected_gain / gain - 1) > 0.02) {
        fprintf(stderr, "%s: expected gain %.3f, not %.3f\n", tachy_limit_name(limit),
                v.expected_gain, gain);
        CHECK(false);
    }
    CHECK(v.words[0] && strlen(v.words) < sizeof(v.words) - 1);
    CHECK((limit == TACHY_LIMIT_SOURCE_RATE) == !v.remedy[0] && strlen(v.remedy) < sizeof(v.remedy) - 1);
    CHECK(!v.remedy[0] == !v.without[0] && strlen(v.without) < sizeof(v.without) - 1);
    CHECK_INT(strncmp(v.words, limit == TACHY_LIMIT_SOURCE_RATE ? "Keeping up: " : "Bottleneck: ", 12), 0);
    for (int i = 0; i < v.n_evidence; i++)
        CHECK(v.evidence[i][0] && strlen(v.evidence[i]) < sizeof(v.evidence[i]) - 1);
    return v;
}

TEST(transfer)
{
    struct tachy_verdict_in in = quiet();
    in.work.busy_s = 39;
    in.transfer_s = 24;
    in.step_busy_s[TEST_STEP_MODEL] = 36;
    struct tachy_verdict v = told(&in, TACHY_LIMIT_TRANSFER, 10 / (15.0 / 4 + 0.25));
    CHECK(strstr(v.words, "62 %"));
    // Batches run on threads of their own.
    in = quiet();
    in.engine = (struct verdict_stage){1, 9.8, 0, 0};
    in.batched = TEST_STEP_MODEL;
    in.transfer_s = 6;
    in.step_busy_s[TEST_STEP_MODEL] = 9.8;
    told(&in, TACHY_LIMIT_TRANSFER, 10 / (3.8 + 0.2));
}

// Side by side if that can be, else with more threads each.
TEST(decode_says_what_helps)
{
    struct tachy_verdict_in in = quiet();
    in.source.busy_s = 9.8;
    in.held_back_s = 0.1;
    in.starved_s = 9;
    in.work.busy_s = 8;
    in.step_busy_s[TEST_STEP_DECODE] = 9.8;
    struct tachy_verdict v;
    tachy_verdict(&v, &in);
    CHECK_STR(v.name, "decode");
    CHECK(strstr(v.remedy, "--decode-threads") && !strstr(v.remedy, "--decoders"));
    in.more_decoders = true;
    tachy_verdict(&v, &in);
    CHECK_STR(v.name, "decode");
    CHECK(strstr(v.remedy, "--decoders") && !strstr(v.remedy, "--decode-threads"));
}

// Workers of a GPU wait for each other's turn there, so they look busy although the one decoder limits the run. As measured with
// `tachy motion --device cuda --max-frames` over the fake driver: reading ends half a second before the run.
TEST(workers_that_sleep_beside_one_decoder)
{
    struct tachy_verdict_in in = quiet(), other;
    in.cores = 16;
    in.source = (struct verdict_stage){1, 9.3, 0.3, 0.1};
    in.work = (struct verdict_stage){6, 57.5, 14, 1};
    in.held_back_s = 0.6;
    in.ended_s = 0.5;
    in.step_busy_s[TEST_STEP_DECODE] = 9.3;
    in.step_busy_s[TEST_STEP_POSTPROCESS] = 56;
    struct tachy_verdict v;
    tachy_verdict(&v, &in);
    CHECK_STR(v.name, "decode");
    CHECK(strstr(v.words, "busy 93 %") && strstr(v.remedy, "--decode-threads 16") && v.expected_gain == 0);
    other = in;
    other.nvdec = true;
    tachy_verdict(&v, &other);
    CHECK(strstr(v.remedy, "cheaper to decode"));
    other.cut_short = true;
    tachy_verdict(&v, &other);
    CHECK(strstr(v.remedy, "--max-frames"));
    other.cut_short = false;
    other.more_decoders = true;
    other.decode_engines = 7; // two sessions keep each of them busy
    tachy_verdict(&v, &other);
    CHECK(strstr(v.remedy, "--decoders 14"));
    other.source = (struct verdict_stage){14, 130, 0.3, 0.1};
    other.step_busy_s[TEST_STEP_DECODE] = 130;
    tachy_verdict(&v, &other);
    CHECK_STR(v.name, "decode");
    CHECK(strstr(v.remedy, "cheaper to decode"));
    other = in; // other programs have the cores, which the decoder does not wait for
    other.cores = 2;
    other.other_cpu_s = 19;
    other.work.queued_s = 14;
    tachy_verdict(&v, &other);
    CHECK_STR(v.name, "decode");
    CHECK(!strstr(v.words, "cores are busy"));
    other = in;
    other.read_s = 8;
    tachy_verdict(&v, &other);
    CHECK_STR(v.name, "disk");
    const struct { double cpu, held, ended; bool sheds; } not[] = {
        {50, 0.6, 0.5, false}, // the workers compute
        {14, 1.5, 0.2, false}, // the source waited for room
        {14, 2.5, 2.4, false}, // what had been read took long
        {14, 0.6, 0.5, true},
    };
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(not); i++) {
        other = in;
        other.work.cpu_s = not[i].cpu;
        other.source.busy_s = 10 - not[i].held;
        other.held_back_s = not[i].held;
        other.ended_s = not[i].ended;
        other.sheds = not[i].sheds;
        tachy_verdict(&v, &other);
        CHECK_STR(v.name, "postprocess");
    }
}

// Two workers that compute all the time at half of the clock: 10 s become 5 s, and no other part
// comes near.
TEST(thermal)
{
    struct tachy_verdict_in in = quiet();
    in.cores = 2;
    in.work = (struct verdict_stage){2, 20, 18, 0};
    in.step_busy_s[TEST_STEP_MODEL] = 17;
    in.process_cpu_s = 19.5;
    in.clock_mhz = 1500;
    in.clock_max_mhz = 3000;
    in.throttled = 40;
    struct tachy_verdict v = told(&in, TACHY_LIMIT_THERMAL, 10 / 5.5);
    CHECK(strstr(v.words, "1500 of 3000 MHz"));
    in.throttled = 0; // a governor that saves power is no heat
    tachy_verdict(&v, &in);
    CHECK_STR(v.name, "engine");
}

TEST(short_of_memory)
{
    struct tachy_verdict_in in = quiet();
    in.memory_stall_s = 6;
    in.major_faults = 5000;
    struct tachy_verdict v = told(&in, TACHY_LIMIT_MEMORY, 2.5);
    CHECK(strstr(v.words, "60 %"));
    in.major_faults = 0; // others' stall, not ours
    in.work.busy_s = 39.9;
    in.step_busy_s[TEST_STEP_MODEL] = 37;
    told(&in, TACHY_LIMIT_ENGINE, 10 / 2.0);
}

// A worker that gets half a core because others have the rest: no idle core is there to be used.
TEST(other_programs)
{
    struct tachy_verdict_in in = quiet();
    in.cores = 2;
    in.source = (struct verdict_stage){1, 1, 0.5, 0.5};
    in.work = (struct verdict_stage){1, 9.8, 4.8, 4.9};
    in.step_busy_s[TEST_STEP_MODEL] = 9;
    in.process_cpu_s = 5.8;
    told(&in, TACHY_LIMIT_ONE_CORE, 10 / 5.1); // the other core is idle
    in.other_cpu_s = 14;
    struct tachy_verdict v;
    tachy_verdict(&v, &in);
    CHECK_STR(v.name, "engine");
    CHECK(strstr(v.words, "Both cores are busy"));
}

// As measured in a run of one second beside other load: workers are idle a third of the time, but no core is.
TEST(other_programs_beside_a_short_run)
{
    struct tachy_verdict_in in = quiet();
    in.cores = 2;
    in.source = (struct verdict_stage){1, 2.5, 0.7, 1.8};
    in.work = (struct verdict_stage){2, 14, 3.2, 5.4};
    in.work_queued_s = in.work.queued_s;
    in.sink = (struct verdict_stage){1, 0, 0, 0};
    in.held_back_s = 7.5;
    in.starved_s = 9.3;
    in.step_busy_s[TEST_STEP_MODEL] = 11;
    in.process_cpu_s = 3.9;
    struct tachy_verdict v;
    tachy_verdict(&v, &in);
    CHECK(strstr(v.remedy, "--workers 4")); // cores are idle
    in.other_cpu_s = 16.2;
    tachy_verdict(&v, &in);
    CHECK_STR(v.name, "engine");
    CHECK(strstr(v.words, "Both cores are busy") && !strstr(v.remedy, "--workers"));
}

// Runs with a known bottleneck, as figures: what is found, and that the remedy is one for this run.
struct known {
    const char *what;
    struct verdict_stage source, work, sink; // threads, busy, computing, waiting for a core; 0 threads: as in quiet()
    double seconds, held, starved, cpu;      // 0: as in quiet()
    int step;                                // what the workers do mostly
    double read, write, pace, order;
    const char *faster;                      // what the encoder knows
    bool decoders;                           // more of them could work side by side
    const char *name, *has, *not;            // of the verdict; in the remedy; not in it
};

static const struct known known[] = {
    {"one decoder thread, idle cores", .source = {1, 9.8, 9.5, 0}, .held = 0.1, .cpu = 13, .name = "decode",
     .has = "--decode-threads", .not = "--decoders"},
    {"one decoder of several", .source = {1, 9.8, 9.5, 0}, .held = 0.1, .cpu = 13, .decoders = true, .name = "decode",
     .has = "--decoders", .not = "--decode-threads"},
    {"decoders on all cores", .source = {1, 9.8, 1, 0}, .held = 0.1, .cpu = 38, .decoders = true, .name = "decode",
     .has = "cheaper to decode", .not = "--"},
    {"decoding a clip of 1 s", .source = {1, 0.95, 0.9, 0}, .work = {4, 0.8, 0.2, 0}, .sink = {1, 0.1, 0.05, 0}, .seconds = 1,
     .held = 0.02, .starved = 0.9, .cpu = 1.2, .name = "decode", .has = "--decode-threads"},
    {"model, idle cores", .work = {4, 39, 4, 0}, .step = TEST_STEP_MODEL, .cpu = 6, .name = "engine", .has = "(--workers 8)"},
    {"model, busy cores", .work = {4, 39, 38, 0}, .step = TEST_STEP_MODEL, .cpu = 39.5, .name = "engine",
     .has = "a smaller model", .not = "--workers"},
    {"model on a clip of 3 s", .work = {4, 11.8, 11.5, 0}, .sink = {1, 0.2, 0.1, 0}, .source = {1, 0.3, 0.2, 0}, .seconds = 3,
     .held = 2.6, .starved = 2.8, .step = TEST_STEP_MODEL, .cpu = 11.9, .name = "engine", .not = "--workers"},
    {"composite", .work = {4, 39, 4, 0}, .step = TEST_STEP_COMPOSITE, .cpu = 6, .name = "composite", .has = "--workers"},
    {"x264, idle cores", .sink = {1, 9.8, 2, 0}, .starved = 0.1, .cpu = 14, .faster = "a faster preset (-preset veryfast)",
     .name = "encode", .has = "(-preset veryfast)"},
    {"x265, busy cores", .sink = {1, 9.8, 1, 0}, .starved = 0.1, .cpu = 39, .faster = "a faster preset (-preset ultrafast)",
     .name = "encode", .has = "-preset ultrafast", .not = "--encode-threads"},
    {"x265 at its fastest", .sink = {1, 9.8, 1, 0}, .starved = 0.1, .cpu = 39, .faster = "a faster encoder (-c:v libx264)",
     .name = "encode", .has = "-c:v libx264", .not = "-preset"},
    {"SVT-AV1", .sink = {1, 9.8, 1, 0}, .starved = 0.1, .cpu = 39, .faster = "a faster preset (-preset 12)", .name = "encode",
     .has = "-preset 12", .not = "--encode-threads"},
    {"an encoder without presets", .sink = {1, 9.8, 9, 0}, .starved = 0.1, .cpu = 14, .name = "encode",
     .has = "(--every-nth 2)", .not = "-preset"},
    {"encoding a clip of 1 s", .source = {1, 0.1, 0.05, 0}, .work = {4, 0.5, 0.2, 0}, .sink = {1, 0.95, 0.9, 0}, .seconds = 1,
     .held = 0.8, .starved = 0.02, .cpu = 1.2, .name = "encode", .has = "(--every-nth 2)"},
    {"VP9, which looks ahead, 1 s", .source = {1, 0.1, 0.05, 0}, .work = {2, 0.3, 0.2, 0}, .sink = {1, 0.6, 0.3, 0}, .seconds = 1,
     .held = 0.68, .starved = 0.35, .cpu = 1, .name = "encode", .has = "(--every-nth 2)"},
    {"reading from a slow disk", .source = {1, 9.8, 0.5, 0}, .held = 0.1, .read = 9, .name = "disk", .has = "the input"},
    {"writing to a slow disk", .sink = {1, 9.8, 0.5, 0}, .starved = 0.1, .write = 9, .name = "disk", .has = "the output"},
    {"a camera", .source = {1, 9.8, 0.5, 0}, .held = 0.1, .pace = 9, .name = "source-rate", .not = "-"},
    {"a camera for 1 s", .source = {1, 0.98, 0.05, 0}, .work = {4, 0.8, 0.2, 0}, .sink = {1, 0.1, 0.05, 0}, .seconds = 1,
     .held = 0.01, .starved = 0.9, .pace = 0.9, .cpu = 0.4, .name = "source-rate", .not = "-"},
    {"one worker", .work = {1, 9.9, 9.8, 0}, .step = TEST_STEP_MODEL, .cpu = 12, .name = "one-core-busy", .has = "(--workers 4)"},
    {"one frame after the other", .work = {4, 9.9, 9.8, 0}, .order = 9.5, .cpu = 12, .name = "one-core-busy"},
    {"the same, most workers idle", .work = {16, 24, 12, 0}, .held = 6.8, .starved = 9.6, .order = 9.7, .cpu = 20, .name = "one-core-busy"},
};

static struct tachy_verdict_in figures_of(const struct known *k)
{
    struct tachy_verdict_in in = quiet();
    const int n = TEST_STEP_ENCODE + 1;
    in.source = k->source.threads ? k->source : in.source;
    in.work = k->work.threads ? k->work : in.work;
    in.sink = k->sink.threads ? k->sink : in.sink;
    in.seconds = TACHY_DEF(k->seconds, in.seconds);
    in.frames = (int64_t)(in.seconds * 25);
    in.held_back_s = TACHY_DEF(k->held, in.held_back_s);
    in.starved_s = TACHY_DEF(k->starved, in.starved_s);
    in.process_cpu_s = TACHY_DEF(k->cpu, in.process_cpu_s);
    for (int s = 1; s < n - 1; s++)
        in.step_busy_s[s] = in.work.busy_s * (s == TACHY_DEF(k->step, TEST_STEP_MODEL) ? 0.85 : 0.05);
    in.step_busy_s[TEST_STEP_DECODE] = in.source.busy_s;
    in.step_busy_s[TEST_STEP_ENCODE] = in.sink.busy_s;
    in.read_s = k->read;
    in.write_s = k->write;
    in.pace_s = k->pace;
    in.order_s = k->order;
    in.faster_output = k->faster;
    in.more_decoders = k->decoders;
    return in;
}

TEST(known_bottlenecks)
{
    CHECK(TACHY_ARRAY_SIZE(known) >= 20);
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(known); i++) {
        const struct known *k = &known[i];
        struct tachy_verdict_in in = figures_of(k);
        struct tachy_verdict v;
        tachy_verdict(&v, &in);
        bool paced = v.limit == TACHY_LIMIT_SOURCE_RATE;
        bool right = !strcmp(v.name, k->name) && (!k->has || strstr(v.remedy, k->has)) &&
                     (!k->not || !strstr(v.remedy, k->not)) && paced == !v.remedy[0] && (paced || v.expected_gain >= 1.05);
        if (!right)
            fprintf(stderr, "%s: %s, remedy \"%s\", gain %.2f\n", k->what, v.name, v.remedy, v.expected_gain);
        CHECK(right);
    }
}

TEST(too_short_to_tell)
{
    struct tachy_verdict v;
    struct tachy_verdict_in in = quiet();
    in.frames = 3;
    tachy_verdict(&v, &in);
    CHECK_INT(v.limit, TACHY_LIMIT_NONE);
    CHECK(v.expected_gain == 0 && !v.n_evidence && !v.remedy[0]);
    CHECK(strstr(v.words, "unknown"));
    in = quiet();
    in = (struct tachy_verdict_in){.steps = in.steps, .encode = in.encode, .batched = -1, .seconds = 1e-9};
    tachy_verdict(&v, &in);
    CHECK_INT(v.limit, TACHY_LIMIT_NONE);
    in.seconds = 0.01;
    in.frames = 1000;
    in.cores = 2;
    tachy_verdict(&v, &in); // 10 us a frame
    CHECK_INT(v.limit, TACHY_LIMIT_NONE);
}

// The figures of every stage nought, or absurd: no division by nothing, a gain of at least 1.
TEST(any_figures_are_taken)
{
    srand(3);
    for (int i = 0; i < 200000; i++) {
        struct tachy_verdict_in in = {.steps = test_table_of_rows(), .encode = TEST_STEP_ENCODE,
                                      .batched = rand() % 2 ? TEST_STEP_MODEL : -1, .seconds = 1 + rand() % 50, .frames = rand() % 2000, .cores = 1 + rand() % 64};
        double *figures[] = {&in.source.busy_s, &in.source.cpu_s, &in.source.queued_s,
                             &in.work.busy_s, &in.work.cpu_s, &in.work.queued_s,
                             &in.sink.busy_s, &in.sink.cpu_s, &in.sink.queued_s,
                             &in.held_back_s, &in.ended_s, &in.starved_s, &in.order_s, &in.pace_s, &in.read_s,
                             &in.write_s, &in.transfer_s, &in.process_cpu_s, &in.other_cpu_s, &in.memory_stall_s,
                             &in.clock_mhz, &in.clock_max_mhz, &in.batch.run_s, &in.batch.fixed_s};
        for (size_t k = 0; k < sizeof(figures) / sizeof(figures[0]); k++)
            *figures[k] = rand() % 3 ? rand() % 100 : 0;
        for (int s = 0; s < TEST_STEPS; s++)
            in.step_busy_s[s] = rand() % 3 ? rand() % 100 : 0;
        in.work.threads = rand() % 9;
        in.major_faults = rand() % 3;
        in.throttled = rand() % 3;
        in.sheds = rand() % 2;
        in.batch.max = rand() % 9;
        in.batch.runs = rand() % 9;
        in.batch.items = rand() % 40;
        struct tachy_verdict v;
        tachy_verdict(&v, &in);
        CHECK(v.limit < TACHY_LIMIT_COUNT && v.words[0]);
        bool unknown = v.limit == TACHY_LIMIT_NONE || v.limit == TACHY_LIMIT_DECODE || v.limit == TACHY_LIMIT_DISK;
        CHECK((isfinite(v.expected_gain) && v.expected_gain >= 1) || (unknown && v.expected_gain == 0));
        CHECK(v.step >= 0 && v.step < TEST_STEPS && v.name[0]);
        if (test_failures)
            return;
    }
}

TEST(as_text_and_json)
{
    struct tachy_verdict v = {.limit = TACHY_LIMIT_DISK, .words = "The \"x\".", .remedy = "r", .without = "if x were",
                              .expected_gain = 2.5, .n_evidence = 1, .evidence = {"one"}};
    char *text;
    CHECK_INT(tachy_verdict_json(&text, &v), TACHY_OK);
    CHECK_STR(text, "{\"limit\":\"disk\",\"words\":\"The \\\"x\\\".\",\"remedy\":\"r\","
                    "\"expected_gain\":2.5,\"evidence\":[\"one\"]}");
    tachy_free(text);
    CHECK_INT(tachy_verdict_text(&text, &v, true), TACHY_OK);
    CHECK(strstr(text, "one") && strstr(text, "up to 2.5x faster if x were"));
    tachy_free(text);
    CHECK_INT(tachy_verdict_text(&text, &v, false), TACHY_OK);
    CHECK(!strstr(text, "one"));
    tachy_free(text);
    CHECK_STR(tachy_limit_name(TACHY_LIMIT_COUNT), "?");
}

static void put(const char *root, const char *path, const char *text)
{
    char command[1024], name[512];
    snprintf(name, sizeof(name), "%s%s", root, path);
    snprintf(command, sizeof(command), "mkdir -p $(dirname %s)", name);
    CHECK_INT(system(command), 0);
    FILE *f = fopen(name, "w");
    CHECK(f != NULL);
    fputs(text, f);
    fclose(f);
}

// The files of the system, in a folder of our own.
TEST(readings_of_the_system)
{
    char root[] = "/tmp/tachy-system-XXXXXX", command[64];
    struct tachy_system s;
    CHECK(mkdtemp(root) != NULL);
    tachy_system_read(&s, root); // nothing is there
    CHECK(s.memory_stall_us == 0 && s.throttled == 0 && s.clock_mhz == 0 && s.clock_max_mhz == 0);
    put(root, "/proc/pressure/memory", "some avg10=1.00 avg60=0.00 avg300=0.00 total=9\n"
                                       "full avg10=0.00 avg60=0.00 avg300=0.00 total=777\n");
    tachy_system_read(&s, root);
    CHECK_INT(s.memory_stall_us, 777);
    put(root, "/proc/stat", "cpu  100 20 3 9999 777 4 5 6 0 0\ncpu0 1 2 3\ncpu1 1 2 3\nintr 5\n");
    tachy_system_read(&s, root);
    CHECK_INT(s.cpu_ms, 138000 / sysconf(_SC_CLK_TCK));
    CHECK_INT(s.cores, 2);
    put(root, "/proc/self/cgroup", "0::/a/b\n");
    put(root, "/sys/fs/cgroup/a/b/memory.pressure", "full avg10=0.00 avg60=0.00 avg300=0.00 total=5\n");
    put(root, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "1200000\n");
    put(root, "/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "3000000\n");
    put(root, "/sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "1800000\n");
    put(root, "/sys/devices/system/cpu/cpu1/cpufreq/cpuinfo_max_freq", "3000000\n");
    put(root, "/sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "4\n");
    put(root, "/sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "38\n");
    tachy_system_read(&s, root);
    CHECK_INT(s.memory_stall_us, 5);
    CHECK_INT(s.throttled, 42);
    CHECK(fabs(s.clock_mhz - 1500) < 0.1 && fabs(s.clock_max_mhz - 3000) < 0.1);
    put(root, "/proc/self/cgroup", "no such line\n");
    put(root, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "junk");
    tachy_system_read(&s, root);
    CHECK_INT(s.memory_stall_us, 777);
    CHECK(fabs(s.clock_mhz - 1800) < 0.1);
    tachy_system_read(&s, NULL); // the real one: whatever it says, it is read
    snprintf(command, sizeof(command), "rm -r %s", root);
    CHECK_INT(system(command), 0);
}

static double joules(struct tachy_energy_meter *m)
{
    struct tachy_energy e;
    tachy_energy_read(m, &e);
    CHECK(!e.gpus && (e.cpu || e.joules == 0));
    return e.joules;
}

// Packages and their memory, in a folder of our own, by counters that go round.
TEST(energy_of_the_cpu)
{
#define ZONE "/sys/class/powercap/intel-rapl:"
    char root[] = "/tmp/tachy-energy-XXXXXX", command[64];
    struct tachy_energy_meter *m;
    CHECK(mkdtemp(root) != NULL);
    CHECK(!tachy_energy_open(root, NULL, 0, NULL)); // nothing is there
    CHECK(joules(NULL) == 0);
    put(root, ZONE "0/name", "package-0\n");
    CHECK(!tachy_energy_open(root, NULL, 0, NULL)); // its counter cannot be read
    put(root, ZONE "0/energy_uj", "262143000000\n");
    put(root, ZONE "0/max_energy_range_uj", "262143328850\n");
    put(root, ZONE "0:0/name", "core\n"); // part of the package
    put(root, ZONE "0:0/energy_uj", "5\n");
    put(root, ZONE "0:1/name", "dram\n");
    put(root, ZONE "0:1/energy_uj", "1000000\n");
    put(root, ZONE "0:1/max_energy_range_uj", "65712999613\n");
    put(root, ZONE "1/name", "package-1\n");
    put(root, ZONE "1/energy_uj", "7\n");
    put(root, ZONE "2/name", "psys\n"); // has the packages in it
    put(root, ZONE "2/energy_uj", "1\n");
    m = tachy_energy_open(root, NULL, 0, NULL);
    CHECK(m != NULL);
    CHECK(joules(m) == 0);
    put(root, ZONE "0/energy_uj", "1671150\n"); // went round: 328850 + 1671150
    put(root, ZONE "0:0/energy_uj", "900000000\n");
    put(root, ZONE "0:1/energy_uj", "1500000\n");
    put(root, ZONE "1/energy_uj", "3000007\n");
    put(root, ZONE "2/energy_uj", "800000000\n");
    CHECK(fabs(joules(m) - (2 + 0.5 + 3)) < 1e-9);
    put(root, ZONE "0/energy_uj", "2671150\n");
    CHECK(fabs(joules(m) - 6.5) < 1e-9);
    put(root, ZONE "1/energy_uj", "1\n"); // fell, and does not say where it goes on: nothing is known any more
    CHECK(joules(m) == 0);
    put(root, ZONE "1/energy_uj", "9000007\n");
    CHECK(joules(m) == 0);
    tachy_energy_close(&m);
    CHECK(!m);
    put(root, ZONE "0:1/energy_uj", "junk");
    CHECK(!tachy_energy_open(root, NULL, 0, NULL)); // a part is not the whole
    snprintf(command, sizeof(command), "rm -r %s", root);
    CHECK_INT(system(command), 0);
}

TEST_MAIN(TEST_CASE(energy_of_the_cpu), TEST_CASE(transfer), TEST_CASE(decode_says_what_helps), TEST_CASE(workers_that_sleep_beside_one_decoder), TEST_CASE(thermal), TEST_CASE(short_of_memory), TEST_CASE(other_programs),
          TEST_CASE(other_programs_beside_a_short_run), TEST_CASE(known_bottlenecks), TEST_CASE(too_short_to_tell), TEST_CASE(any_figures_are_taken),
          TEST_CASE(as_text_and_json), TEST_CASE(readings_of_the_system))
