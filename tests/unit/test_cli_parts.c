#include "test.h"

#include "../../cli/cli.h"
#include "base/path.h"
#include "job/job.h"

// Parts of the command that need no video: derived names and the progress line.

static void derived(const char *input, const char *mode, const char *format, const char *folder,
                    const char *wanted)
{
    char *name = job_output_name(input, mode, format, folder);
    CHECK_STR(name, wanted);
    free(name);
}

TEST(output_names)
{
    derived("in.mp4", "cutout", NULL, NULL, "in.cutout.mp4");
    derived("in.mp4", "mask", NULL, NULL, "in.mask.mp4");
    derived("in.mp4", "alpha", NULL, NULL, "in.alpha.mov");
    derived("in.mp4", "json", NULL, NULL, "in.jsonl");
    derived("in.MKV", "side-by-side", NULL, NULL, "in.side-by-side.MKV");
    derived("in.webm", "blur", NULL, NULL, "in.blur.webm");
    derived("in.flv", "blur", NULL, NULL, "in.blur.mkv");
    derived("a/b.c/in", "blur", NULL, NULL, "a/b.c/in.blur.mkv");
    derived("a.b/.hidden", "blur", NULL, NULL, "a.b/.hidden.blur.mkv");
    derived(".hidden", "blur", NULL, NULL, ".hidden.blur.mkv");
    derived("a/my.film.mp4", "mask", NULL, "out/", "out/my.film.mask.mp4");
    derived("in.mp4", "mask", "matroska", NULL, "in.mask.mkv");
    derived("in.mp4", "mask", "framemd5", NULL, "in.mask.framemd5");
    derived("p.jpg", "cutout", NULL, NULL, "p.cutout.jpg");
    derived("p.jpg", "alpha", NULL, NULL, "p.alpha.png");
    derived("p.heic", "cutout", NULL, NULL, "p.cutout.png");
    derived("p.jpg", "json", NULL, NULL, "p.jsonl");
    derived("s/shot_%04d.jpg", "mask", NULL, NULL, "s/shot_%04d.mask.jpg");
    derived("s/shot_%04d.jpg", "alpha", NULL, "o/", "o/shot_%04d.alpha.png");
    derived("s/shot_%04d.jpg", "json", NULL, NULL, "s/shot.jsonl");
    derived("s/%d.png", "json", NULL, NULL, "s/x.jsonl");
    derived("%d", "json", NULL, NULL, "x.jsonl");
    derived("shot_%04d.png", "mask", "mp4", NULL, "shot.mask.mp4");
    derived("100%.mp4", "mask", NULL, NULL, "100%.mask.mp4");
    derived("http://host/a/clip.mp4?x=1.2/3", "mask", NULL, NULL, "clip.mask.mp4");
    derived("rtsp://host/", "mask", NULL, NULL, "stream.mask.mkv");
    derived("file:a/in.mp4", "mask", NULL, NULL, "a/in.mask.mp4");
    derived("null:64x64@30,frames=5", "mask", NULL, NULL, "null.mask.mkv");
    derived("", "mask", NULL, NULL, ".mask.mkv");
}

TEST(number_patterns)
{
    static const char *const plain[] = {"50%", "%s%x", "%+3d", "% 3d", "%21d", ""};
    const char *end, *name = "a_%04d.png", *two = "50%_%3d";
    int digits;
    CHECK(tachy_path_number(name, &end, &digits) == name + 2);
    CHECK_STR(end, ".png");
    CHECK_INT(digits, 4);
    CHECK(tachy_path_number("%d", &end, &digits));
    CHECK_INT(digits, 0);
    CHECK(tachy_path_number(two, &end, &digits) == two + 4);
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(plain); i++)
        CHECK(!tachy_path_number(plain[i], &end, &digits));
}

TEST(line_fits_every_width)
{
    const struct tachy_progress known = {.frames = 1234, .total = 5000, .fps = 123.4, .limited_by = "decode"},
                                open = {.frames = 123456789, .seconds = 1e6, .fps = 1e5, .limited_by = "a stage"},
                                paced = {.frames = 100, .limited_by = "source-rate"},
                                none = {.total = 10};
    const struct tachy_progress *all[] = {&known, &open, &none};
    char line[256];
    for (size_t i = 0; i < 3; i++) {
        for (int width = 0; width < 300; width++) {
            progress_line(line, sizeof(line), width, true, all[i]);
            CHECK((int)strlen(line) <= width);
        }
    }
    progress_line(line, sizeof(line), 200, false, &known);
    CHECK_STR(line, " 25 %  1234/5000 frames  123.4 fps  ETA 0:31  bottleneck: decode");
    progress_line(line, sizeof(line), 200, false, &paced);
    CHECK(strstr(line, "keeping up") && !strstr(line, "bottleneck"));
    progress_line(line, sizeof(line), 100, true, &known);
    CHECK(line[0] == '[' && strchr(line, '#') && strchr(line, '-'));
    progress_line(line, 8, 200, true, &known); // a small buffer is not overrun
    CHECK(strlen(line) < 8);
}

TEST(words)
{
    char buf[16];
    CHECK_STR(nth_word("a|bc|d", 1, buf, sizeof(buf)), "bc");
    CHECK_STR(nth_word("a|bc|d", 2, buf, sizeof(buf)), "d");
    CHECK(!nth_word("a|bc|d", 3, buf, sizeof(buf)));
    CHECK(!nth_word(NULL, 0, buf, sizeof(buf)));
}

TEST(every_option_can_be_shown)
{
    char left[128], right[512], word[64];
    for (const struct tachy_option *o = tachy_options(); o->path; o++) {
        option_left(o, left, sizeof(left));
        option_right(o, right, sizeof(right));
        CHECK(!has_name(o) || (left[0] == '-' && strlen(left) < 60));
        CHECK(strstr(right, o->help) == right);
        CHECK((option_value(o, word, sizeof(word)) == NULL) == (o->type == TACHY_OPT_BOOL));
    }
}

TEST_MAIN(TEST_CASE(output_names), TEST_CASE(number_patterns), TEST_CASE(line_fits_every_width),
          TEST_CASE(words), TEST_CASE(every_option_can_be_shown))
