#include "test.h"

#include "base/options.h"
#include "base/base.h"
#include "base/parse.h"

#include <locale.h>
#include <math.h>
#include <tachy/settings.h>
#include <unistd.h>

// The last error that was logged.
static char message[1024];

static void keep(void *user, enum tachy_log_level level, const char *msg)
{
    if (level == TACHY_LOG_ERR)
        snprintf(message, sizeof(message), "%s", msg);
}

static const struct tachy_log test_log = {.fn = keep};

static tachy_settings *fresh(void)
{
    tachy_settings *s;
    message[0] = '\0';
    CHECK_INT(tachy_settings_new(&s, &test_log), TACHY_OK);
    return s;
}

static bool said(const char *part)
{
    bool found = strstr(message, part) != NULL;
    if (!found)
        fprintf(stderr, "wanted \"%s\" in \"%s\"\n", part, message);
    return found;
}

static char yaml_path[64];

static int load_bytes(tachy_settings *s, const char *data, size_t size)
{
    snprintf(yaml_path, sizeof(yaml_path), "test-settings-%ld.yaml", (long)getpid());
    message[0] = '\0';
    CHECK_INT(tachy_write_file(yaml_path, data, size, &test_log), TACHY_OK);
    int err = tachy_settings_load(s, yaml_path);
    unlink(yaml_path);
    return err;
}

static int load(tachy_settings *s, const char *text) { return load_bytes(s, text, strlen(text)); }

// A file that must be refused with a message that contains `part`, and change nothing.
static void refused(const char *text, int err, const char *part)
{
    tachy_settings *s = fresh();
    int got = load(s, text);
    if (got != err)
        fprintf(stderr, "of: %.60s\n", text);
    CHECK_INT(got, err);
    CHECK(said(part));
    for (const struct tachy_option *o = tachy_options(); o->path; o++)
        CHECK(!tachy_settings_is_set(s, o->path));
    tachy_settings_free(&s);
}

TEST(table_is_sound)
{
    const struct tachy_option *all = tachy_options();
    for (const struct tachy_option *o = all; o->path; o++) {
        CHECK(strchr(o->path, '.') != NULL);
        CHECK(o->group && o->help && o->verbs);
        CHECK(o->name || o->letter || !o->command_only);
        CHECK(o->help[strlen(o->help) - 1] != '.');
        CHECK(o->type == TACHY_OPT_INT || (o->type == TACHY_OPT_ENUM) == (o->values != NULL)); // a number or a word: --batch auto
        CHECK(tachy_option_find(o->path, NULL) == o);
        for (const struct tachy_option *p = all; p < o; p++) {
            bool same = o->name && p->name && !strcmp(o->name, p->name);
            CHECK(!same || !(o->verbs & p->verbs)); // no verb takes two of one name
            CHECK(!o->letter || o->letter != p->letter);
            CHECK(strcmp(o->path, p->path));
            CHECK(strcmp(o->group, p->group) || !strcmp(p[1].group, o->group)); // groups are kept together
        }
    }
    CHECK_INT(tachy_option_index(tachy_options(), "no.such"), -1);
    CHECK(tachy_option_count(all) < TACHY_OPTIONS_MAX);
}

TEST(find_by_every_name)
{
    static const char *const names[][2] = {
        {"i", "input.files"},      {"input", "input.files"},    {"ss", "input.start"},
        {"t", "input.duration"},   {"r", "input.rate"},         {"c:v", "output.codec"},
        {"vcodec", "output.codec"}, {"codec:v", "output.codec"}, {"n", "output.no_overwrite"},
        {"y", "output.overwrite"}, {"v", "run.log_level"},      {"loglevel", "run.log_level"},
        {"q", "run.quiet"},        {"c", "general.config"},     {"an", "output.no_audio"},
    };
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(names); i++) {
        const struct tachy_option *o = tachy_option_find(names[i][0], NULL);
        CHECK(o != NULL);
        if (o)
            CHECK_STR(o->path, names[i][1]);
    }
    const char *near;
    CHECK(!tachy_option_find("treshold", &near));
    CHECK_STR(near, "threshold");
    CHECK(!tachy_option_find("segment.treshold", &near));
    CHECK_STR(near, "segment.threshold");
    CHECK(!tachy_option_find("", &near));
    CHECK(!near);
    CHECK_STR(tachy_option_nearest_path(tachy_options(), "crf"), "output.crf");
    CHECK_STR(tachy_option_nearest_path(tachy_options(), "output.batch_size"), "model.batch_size");
    CHECK(!tachy_option_nearest_path(tachy_options(), "zzzzzzzzzzzzzzzzzzzz"));
}

TEST(defaults)
{
    tachy_settings *s = fresh();
    CHECK_STR(tachy_settings_str(s, "segment.mode"), "cutout");
    CHECK_STR(tachy_settings_origin(s, "segment.mode"), "default");
    CHECK(tachy_settings_float(s, "segment.threshold") == 0.5);
    CHECK_INT(tachy_settings_int(s, "model.batch_size"), 1);
    CHECK(tachy_settings_float(s, "model.batch_size") == 1);
    CHECK_INT(tachy_settings_color(s, "segment.tint"), 0x00ff0080);
    CHECK_INT(tachy_settings_color(s, "segment.background"), 0x000000ff);
    CHECK(!tachy_settings_str(s, "output.crf"));
    CHECK(!tachy_settings_is_set(s, "segment.mode"));
    CHECK_INT(tachy_settings_rate(s, "input.rate").num, 0);
    CHECK_INT(tachy_settings_rate(s, "input.rate").den, 0);
    const char *const *items;
    CHECK_INT(tachy_settings_list(s, "input.files", &items), 0);
    CHECK(!message[0]);
    CHECK_INT(tachy_settings_int(s, "no.such"), 0);
    CHECK(said("no.such"));
    tachy_settings_free(&s);
    CHECK(!s);
    tachy_settings_free(&s);
}

TEST(set_checks_type_and_range)
{
    static const struct {
        const char *name, *value, *part;
    } bad[] = {
        {"batch", "0", "--batch: \"0\" is not a whole number from 1 to 256"},
        {"batch", "257", "from 1 to 256"},
        {"batch", "1.5", "whole number"},
        {"batch", "99999999999999999999", "whole number"},
        {"batch", " 1", "whole number"},
        {"max-frames", "-1", "of at least 0"},
        {"threshold", "1.01", "number from 0 to 1"},
        {"threshold", "nan", "number from 0 to 1"},
        {"threshold", "0,5", "number from 0 to 1"},
        {"threshold", "0x0.8p0", "number from 0 to 1"},
        {"crf", "abc", "-crf: \"abc\" is not a number from 0 to 63"},
        {"mode", "cut", "mask, cutout, blur, replace, overlay, alpha, json or side-by-side"},
        {"mode", "mask|cutout", "is not"},
        {"tint", "greem", "colour"},
        {"ss", "1:75", "a time"},
        {"ss", "-1", "a time"},
        {"r", "0", "frame rate"},
        {"r", "30/0", "frame rate"},
        {"y", "maybe", "yes or no"},
        {"o", "", "not empty"},
        {"model.batch_size", "x", "--batch"},
    };
    tachy_settings *s = fresh();
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(bad); i++) {
        message[0] = '\0';
        int err = tachy_settings_set(s, bad[i].name, bad[i].value, "command line");
        CHECK_INT(err, TACHY_ERR_INVAL);
        CHECK(said(bad[i].part));
        CHECK(!tachy_settings_is_set(s, tachy_option_find(bad[i].name, NULL)->path));
    }
    CHECK_INT(tachy_settings_set(s, "treshold", "1", "command line"), TACHY_ERR_NOT_FOUND);
    CHECK(said("did you mean \"threshold\""));
    char *huge = calloc(1, 100001);
    memset(huge, 'x', 100000);
    CHECK_INT(tachy_settings_set(s, "o", huge, "command line"), TACHY_ERR_INVAL);
    CHECK(strlen(message) < 200);
    CHECK_INT(tachy_settings_set(s, huge, "1", "command line"), TACHY_ERR_NOT_FOUND);
    free(huge);
    tachy_settings_free(&s);
}

TEST(set_and_read)
{
    tachy_settings *s = fresh();
    CHECK_INT(tachy_settings_set(s, "crf", "20.5", "command line"), TACHY_OK);
    CHECK_STR(tachy_settings_str(s, "output.crf"), "20.5");
    CHECK(tachy_settings_float(s, "output.crf") == 20.5);
    CHECK_STR(tachy_settings_origin(s, "output.crf"), "command line");
    CHECK_INT(tachy_settings_set(s, "crf", "21", NULL), TACHY_OK);
    CHECK_STR(tachy_settings_origin(s, "output.crf"), "program");
    CHECK_INT(tachy_settings_set(s, "crf", "no", NULL), TACHY_ERR_INVAL);
    CHECK_STR(tachy_settings_str(s, "output.crf"), "21"); // the old value stands
    CHECK_INT(tachy_settings_set(s, "y", "on", NULL), TACHY_OK);
    CHECK(tachy_settings_bool(s, "output.overwrite"));
    CHECK_INT(tachy_settings_set(s, "r", "30000/1001", NULL), TACHY_OK);
    CHECK_INT(tachy_settings_rate(s, "input.rate").num, 30000);
    CHECK_INT(tachy_settings_rate(s, "input.rate").den, 1001);
    CHECK_INT(tachy_settings_set(s, "background", "#123456", NULL), TACHY_OK);
    CHECK_INT(tachy_settings_color(s, "segment.background"), 0x123456ff);
    CHECK_INT(tachy_settings_set(s, "background", "beach.jpg", NULL), TACHY_OK);
    CHECK_INT(tachy_settings_color(s, "segment.background"), 0);
    const char *const *items;
    CHECK_INT(tachy_settings_set(s, "i", "a.mp4", NULL), TACHY_OK);
    CHECK_INT(tachy_settings_set(s, "i", "b.mp4", NULL), TACHY_OK);
    CHECK_INT(tachy_settings_list(s, "input.files", &items), 2);
    CHECK_STR(items[0], "a.mp4");
    CHECK_STR(items[1], "b.mp4");
    CHECK(!items[2]);
    tachy_settings_free(&s);
}

TEST(values_as_people_write_them)
{
    static const struct {
        const char *text;
        double seconds; // NaN: refused
    } times[] = {
        {"90", 90},        {"1.5", 1.5},      {"1:30", 90},      {"01:01:30.25", 3690.25},
        {"1500ms", 1.5},   {"2s", 2},         {"40us", 40e-6},   {"90:00", 5400},
        {".5", 0.5},       {"-3", -3},        {"-1:00", -60},    {"1e1", 10},
        {"1:60", NAN},     {"1:2:3:4", NAN},  {"1:", NAN},       {":30", NAN},
        {"1.5:30", NAN},   {"1::2", NAN},     {"", NAN},         {"inf", NAN},
        {"1e999", NAN},    {"1x", NAN},       {"1:1e1", NAN},    {"--1", NAN},
    };
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(times); i++) {
        double v = -7;
        bool ok = tachy_parse_time(times[i].text, &v);
        bool good = isnan(times[i].seconds) ? !ok && v == -7
                                            : ok && fabs(v - times[i].seconds) < 1e-12;
        if (!good)
            fprintf(stderr, "time \"%s\" gave %g\n", times[i].text, v);
        CHECK(good);
    }
    static const struct {
        const char *text;
        int num, den; // 0: refused
    } rates[] = {
        {"25", 25, 1},          {"30000/1001", 30000, 1001}, {"23.976", 2997, 125},
        {"29.97", 2997, 100},   {"60/2", 30, 1},             {"0.5", 1, 2},
        {"12.5/0.5", 25, 1},    {"0", 0, 0},                 {"-25", 0, 0},
        {"25/", 0, 0},          {"/1", 0, 0},                {"1/0", 0, 0},
        {"1.2.3", 0, 0},        {"99999999999", 0, 0},       {"1e3", 0, 0},
        {"0.0000001", 0, 0},    {"25 ", 0, 0},
        {"11111111111111111111111111111111111111", 0, 0},
    };
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(rates); i++) {
        struct tachy_rational r = {0, 0};
        bool ok = tachy_parse_rate(rates[i].text, &r);
        CHECK_INT(ok, rates[i].num != 0);
        CHECK_INT(r.num, rates[i].num);
        CHECK_INT(r.den, rates[i].den);
    }
    static const struct {
        const char *text;
        uint32_t color;
        bool ok;
    } colors[] = {
        {"black", 0x000000ff, true},   {"Green", 0x008000ff, true},  {"lime", 0x00ff00ff, true},
        {"#fff", 0xffffffff, true},    {"#123", 0x112233ff, true},   {"#a1B2c3", 0xa1b2c3ff, true},
        {"0x01020304", 0x01020304, true}, {"red@0.5", 0xff000080, true},
        {"transparent", 0, true},      {"#", 0, false},              {"#12345", 0, false},
        {"#gggggg", 0, false},         {"", 0, false},               {"red@2", 0, false},
        {"red@", 0, false},            {"0x", 0, false},             {"#@1", 0, false},
    };
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(colors); i++) {
        uint32_t c = 0;
        CHECK_INT(tachy_parse_color(colors[i].text, &c), colors[i].ok);
        CHECK_INT(c, colors[i].color);
    }
}

TEST(decimal_point_in_every_locale)
{
    double v = 0;
    if (setlocale(LC_ALL, "de_DE.UTF-8") || setlocale(LC_ALL, "fr_FR.UTF-8"))
        CHECK(strtod("0,5", NULL) == 0.5);
    CHECK(tachy_parse_float("0.25", &v) && v == 0.25);
    CHECK(!tachy_parse_float("0,25", &v));
    setlocale(LC_ALL, "C");
}

static const char good_yaml[] = "# comment\n"
                                "version: 1\n"
                                "input:\n"
                                "  files: [a.mp4, \"b c.mp4\"]\n"
                                "  start: 1:30\n"
                                "output:\n"
                                "  crf: 20\n"
                                "  overwrite: on\n"
                                "  preset: ~\n"
                                "segment:\n"
                                "  # everything as it is\n"
                                "pipeline:\n"
                                "  stages:\n"
                                "    decode: {threads: 3}\n"
                                "model.batch_size: '4'\n";

TEST(yaml_good)
{
    tachy_settings *s = fresh();
    CHECK_INT(load(s, good_yaml), TACHY_OK);
    const char *const *items;
    CHECK_INT(tachy_settings_list(s, "input.files", &items), 2);
    CHECK_STR(items[1], "b c.mp4");
    CHECK(tachy_settings_float(s, "input.start") == 90);
    CHECK_STR(tachy_settings_str(s, "output.crf"), "20");
    CHECK(tachy_settings_bool(s, "output.overwrite"));
    CHECK(!tachy_settings_is_set(s, "output.preset"));
    CHECK_INT(tachy_settings_int(s, "pipeline.stages.decode.threads"), 3);
    CHECK_INT(tachy_settings_int(s, "model.batch_size"), 4);
    char origin[80];
    snprintf(origin, sizeof(origin), "%s:7", yaml_path);
    CHECK_STR(tachy_settings_origin(s, "output.crf"), origin);
    snprintf(origin, sizeof(origin), "%s:4", yaml_path);
    CHECK_STR(tachy_settings_origin(s, "input.files"), origin);
    tachy_settings_free(&s);
}

TEST(command_line_wins)
{
    tachy_settings *s = fresh();
    const char *const *items;
    CHECK_INT(tachy_settings_set(s, "crf", "10", "command line"), TACHY_OK);
    CHECK_INT(load(s, good_yaml), TACHY_OK);
    CHECK_STR(tachy_settings_str(s, "output.crf"), "10");
    CHECK_STR(tachy_settings_origin(s, "output.crf"), "command line");
    CHECK_INT(tachy_settings_set(s, "batch", "8", "command line"), TACHY_OK);
    CHECK_INT(tachy_settings_int(s, "model.batch_size"), 8);
    CHECK_INT(tachy_settings_set(s, "input", "mine.mp4", "command line"), TACHY_OK);
    CHECK_INT(tachy_settings_list(s, "input.files", &items), 1); // a file's list is replaced
    CHECK_STR(items[0], "mine.mp4");
    CHECK_INT(load(s, good_yaml), TACHY_OK);
    CHECK_INT(tachy_settings_list(s, "input.files", &items), 1);
    tachy_settings_free(&s);
}

TEST(later_file_wins)
{
    tachy_settings *s = fresh();
    const char *const *items;
    CHECK_INT(load(s, good_yaml), TACHY_OK);
    CHECK_INT(load(s, "output: {crf: 30}\ninput: {files: c.mp4}\n"), TACHY_OK);
    CHECK_STR(tachy_settings_str(s, "output.crf"), "30");
    CHECK_INT(tachy_settings_list(s, "input.files", &items), 1);
    CHECK_STR(items[0], "c.mp4");
    CHECK_INT(load(s, "input: {files: []}\n"), TACHY_OK);
    CHECK_INT(tachy_settings_list(s, "input.files", &items), 0);
    CHECK(tachy_settings_is_set(s, "input.files"));
    CHECK_INT(tachy_settings_int(s, "model.batch_size"), 4);
    tachy_settings_free(&s);
}

TEST(yaml_refused)
{
    refused("output:\n  crff: 20\n", TACHY_ERR_FORMAT, ".yaml:2: the key output.crff is not known; "
                                                       "did you mean output.crf?");
    refused("crf: 20\n", TACHY_ERR_FORMAT, "did you mean output.crf?");
    refused("outputs:\n  crf: 20\n", TACHY_ERR_FORMAT, ".yaml:1: the key outputs");
    refused("output:\n  crf: 20\n  crf: 21\n", TACHY_ERR_FORMAT,
            ".yaml:3: output.crf is there twice, the first time in line 2");
    refused("output:\n  crf: 20\noutput:\n  preset: fast\n", TACHY_ERR_FORMAT,
            ".yaml:3: output is there twice, the first time in line 1");
    refused("output.crf: 1\noutput:\n  crf: 20\n", TACHY_ERR_FORMAT, "twice");
    refused("version: 2\n", TACHY_ERR_UNSUPPORTED, "version 2");
    refused("version: [1]\n", TACHY_ERR_UNSUPPORTED, "version");
    refused("version: 1\nversion: 1\n", TACHY_ERR_FORMAT, "twice");
    refused("output:\n  overwrite: yes\n  crf: high\n", TACHY_ERR_INVAL,
            ".yaml:3: output.crf: \"high\" is not a number from 0 to 63");
    refused("output:\n  crf: [1, 2]\n", TACHY_ERR_INVAL, "takes a value, not a list");
    refused("output:\n  crf:\n    deep: 1\n", TACHY_ERR_INVAL, "not keys below it");
    refused("output: 5\n", TACHY_ERR_INVAL, "output takes keys below it");
    refused("output: [1]\n", TACHY_ERR_INVAL, "output takes keys below it");
    refused("input: {files: [[a]]}\n", TACHY_ERR_INVAL, "list of texts");
    refused("input: {files: [{a: 1}]}\n", TACHY_ERR_INVAL, "list of texts");
    refused("segment:\n  tint: #00ff00\n", TACHY_ERR_INVAL, "needs quotes");
    refused("general:\n  help: yes\n", TACHY_ERR_FORMAT, "general");
    refused("general.config: [x.yaml]\n", TACHY_ERR_FORMAT, "command line");
    refused("- a\n- b\n", TACHY_ERR_FORMAT, "key: value");
    refused("just words\n", TACHY_ERR_FORMAT, "key: value");
    refused("a: 1\n--- \nb: 2\n", TACHY_ERR_FORMAT, "the key a");
    refused("version: 1\n---\nversion: 1\n", TACHY_ERR_FORMAT, "second document");
    refused("output: {crf: 1\n", TACHY_ERR_FORMAT, "not valid YAML");
    refused("\tcrf: 1\n", TACHY_ERR_FORMAT, "not valid YAML");
    refused("[a, b]: 1\n", TACHY_ERR_FORMAT, "a key must be a name");
    refused("? {a: b}\n: 1\n", TACHY_ERR_FORMAT, "a key must be a name");
    refused("output: {preset: !foreign fast}\n", TACHY_ERR_FORMAT, "tag");
    refused("output: {preset: \"a\\0b\"}\n", TACHY_ERR_INVAL, "NUL");
}

TEST(yaml_nothing_in_it)
{
    static const char *const texts[] = {"", "\n\n", "# only this\n", "---\n", "~\n", "output:\n",
                                        "version: 1", "{}", "\xef\xbb\xbfversion: 1\r\n"};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(texts); i++) {
        tachy_settings *s = fresh();
        CHECK_INT(load(s, texts[i]), TACHY_OK);
        for (const struct tachy_option *o = tachy_options(); o->path; o++)
            CHECK(!tachy_settings_is_set(s, o->path));
        tachy_settings_free(&s);
    }
}

TEST(yaml_hostile)
{
    // An alias bomb: 9^9 items if aliases are followed.
    refused("a: &a [x,x]\nb: &b [*a,*a]\n", TACHY_ERR_FORMAT, "not known");
    refused("input: {files: &a [x]}\n", TACHY_ERR_FORMAT, "anchors and aliases");
    refused("input: {files: *a}\n", TACHY_ERR_FORMAT, "anchors and aliases");
    refused("<<: *base\n", TACHY_ERR_FORMAT, "not known");
    refused("&k output: {crf: 1}\n", TACHY_ERR_FORMAT, "anchors and aliases");

    tachy_settings *s = fresh();
    size_t n = 1 << 20;
    char *big = malloc(n + 2);
    memset(big, '[', n + 2);
    CHECK_INT(load_bytes(s, big, n), TACHY_ERR_FORMAT);
    CHECK_INT(load_bytes(s, big, n + 1), TACHY_ERR_LIMIT);
    memset(big, '{', n);
    CHECK(load_bytes(s, big, n) < 0);
    memset(big, 0, n);
    CHECK_INT(load_bytes(s, big, n), TACHY_ERR_FORMAT);
    CHECK(said("not a YAML text"));
    memset(big, 'x', n); // one key of a mebibyte
    memcpy(big + n - 4, ": 1\n", 4);
    CHECK(load_bytes(s, big, n) < 0);
    CHECK(strlen(message) < 300);
    memcpy(big, "? ", 2); // a long key needs the question mark
    memcpy(big + n - 4, "\n: 1", 4);
    CHECK_INT(load_bytes(s, big, n), TACHY_ERR_FORMAT);
    CHECK(strlen(message) < 300);
    srand(1);
    for (int round = 0; round < 200; round++) { // noise, and the good file with flipped bits
        size_t len = sizeof(good_yaml) - 1;
        memcpy(big, good_yaml, len);
        for (int k = 0; k < 3; k++)
            big[(size_t)rand() % len] ^= (char)(1 << rand() % 8);
        int err = load_bytes(s, big, len);
        CHECK((err < 0) == (message[0] != '\0'));
        for (size_t k = 0; k < 64; k++)
            big[k] = (char)rand();
        err = load_bytes(s, big, 64);
        CHECK((err < 0) == (message[0] != '\0'));
    }
    free(big);
    CHECK_INT(tachy_settings_load(s, "no-such-file.yaml"), TACHY_ERR_NOT_FOUND);
    CHECK(said("no-such-file.yaml"));
    CHECK(tachy_settings_load(s, "/") < 0);
    tachy_settings_free(&s);
}

TEST(secrets)
{
    static const char *const texts[][2] = {
        {"rtsp://me:pass@camera/1 cannot be opened", "rtsp://***@camera/1 cannot be opened"},
        {"http://host/a@b:c", "http://host/a@b:c"},
        {"http://me@host/x", "http://me@host/x"},
        {"\"rtmp://host/live2/abcd-efgh\": no answer", "\"rtmp://host/live2/***\": no answer"},
        {"rtmps://u:p@h:443/app/k: no answer", "rtmps://***@h:443/app/*: no answer"},
        {"rtmp://host/live", "rtmp://host/live"},
        {"srt://h:9?mode=caller&passphrase=secret&Token=x&latency=2", "srt://h:9?mode=caller&passphrase=***&Token=*&latency=2"},
        {"http://a:b@c/ and rtsp://d:e@f", "http://***@c/ and rtsp://***@f"},
        {"a file.mp4: no such file", "a file.mp4: no such file"},
        {"://", "://"},
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        char text[128];
        snprintf(text, sizeof(text), "%s", texts[i][0]);
        tachy_hide_secrets(text);
        CHECK_STR(text, texts[i][1]);
    }
    tachy_hide_secrets(NULL);
}

TEST(nearest_name)
{
    const char *const names[] = {"yes-n", "json"};
    CHECK_STR(tachy_nearest("jsn", (const char *const[]){"isn", "json"}, 2), "json");
    CHECK_STR(tachy_nearest("segmnt", (const char *const[]){"segment", "augment"}, 2), "segment");
    CHECK(!tachy_nearest("x", names, 2));
}

TEST_MAIN(TEST_CASE(secrets), TEST_CASE(nearest_name), TEST_CASE(table_is_sound), TEST_CASE(find_by_every_name), TEST_CASE(defaults),
          TEST_CASE(set_checks_type_and_range), TEST_CASE(set_and_read),
          TEST_CASE(values_as_people_write_them), TEST_CASE(decimal_point_in_every_locale),
          TEST_CASE(yaml_good), TEST_CASE(command_line_wins), TEST_CASE(later_file_wins),
          TEST_CASE(yaml_refused), TEST_CASE(yaml_nothing_in_it), TEST_CASE(yaml_hostile))
