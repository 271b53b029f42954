#include "test.h"

#include "base/base.h"
#include "model/card.h"
#include "model/digest.h"
#include "postprocess/decode.h"
#include "tiny_onnx.h"

#include <dirent.h>
#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <tachy/engine.h>
#include <tachy/model.h>
#include <unistd.h>
#include <zip.h>

static char said[1024], warned[1024];
static char folder[64]; // of this run
static char models[96]; // an empty model folder for each test

static void listen(void *user, enum tachy_log_level level, const char *msg)
{
    if (level == TACHY_LOG_ERR)
        snprintf(said, sizeof(said), "%s", msg);
    if (level == TACHY_LOG_WARN)
        snprintf(warned, sizeof(warned), "%s", msg);
}

static const struct tachy_log logger = {.fn = listen};

#define CHECK_SAID(text)                                                                           \
    do {                                                                                           \
        if (!strstr(said, text)) {                                                                 \
            fprintf(stderr, "%s:%d: \"%s\" does not say \"%s\"\n", __FILE__, __LINE__, said, text);\
            test_failures++;                                                                       \
        }                                                                                          \
    } while (0)

static void fresh(void)
{
    static int n;
    snprintf(models, sizeof(models), "%s/models%d", folder, n++);
    CHECK_INT(mkdir(models, 0777), 0);
    said[0] = warned[0] = '\0';
}

static void write_text(const char *path, const char *text)
{
    CHECK_INT(tachy_write_file(path, text, strlen(text), &logger), TACHY_OK);
}

// A model and a wheel that holds it, in `folder`, and their digests.
static char onnx[96], wheel[128], onnx_sha[65], wheel_sha[65];
static const char wheel_name[] = "tinynet-1.0-py3-none-any.whl";

static bool make_files(void)
{
    static const int64_t dims[] = {1, 8, 8, 1, 0};
    snprintf(onnx, sizeof(onnx), "%s/tiny-source.onnx", folder);
    snprintf(wheel, sizeof(wheel), "%s/%s", folder, wheel_name);
    if (!tiny_write(onnx, "Add", 1, dims))
        return false;
    zip_t *zip = zip_open(wheel, ZIP_CREATE, NULL);
    zip_source_t *source = zip ? zip_source_file(zip, onnx, 0, -1) : NULL;
    if (!source || zip_file_add(zip, "tinynet/tiny.bin", source, 0) < 0 || zip_close(zip) < 0)
        return false;
    return !tachy_sha256_file(onnx, onnx_sha, &logger) && !tachy_sha256_file(wheel, wheel_sha, &logger);
}

// A card with this licence and these sources in the model folder.
static void write_licensed(const char *licence, const char *sha256, const char *sources)
{
    char *text = tachy_asprintf(
        "{\"name\":\"tiny\",\"task\":\"segment\",\"file\":\"tiny.onnx\",\"license\":\"%s\",\"sha256\":\"%s\","
        "\"input\":{\"width\":8,\"height\":8,\"layout\":\"nhwc\",\"channels\":\"luma\"},"
        "\"output\":{\"meaning\":\"probability\"},\"sources\":[%s]}",
        licence, sha256, sources);
    char *path = tachy_asprintf("%s/tiny.json", models);
    write_text(path, text);
    tachy_free(text);
    tachy_free(path);
}

static void write_card(const char *sha256, const char *sources) { write_licensed("", sha256, sources); }

static int open_model(const char *name, bool fetch)
{
    tachy_model *m = (void *)1;
    said[0] = '\0';
    int err = tachy_model_open(&m, &(struct tachy_model_params){
                                       .name = name, .dir = models, .fetch = fetch, .log = &logger});
    CHECK(err ? !m && said[0] : m && access(tachy_model_path(m), R_OK) == 0);
    tachy_model_close(&m);
    return err;
}

// Files of the model folder besides cards and wheels.
static int count_files(void)
{
    int n = 0;
    DIR *d = opendir(models);
    for (struct dirent *e; d && (e = readdir(d));)
        n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && strcmp(e->d_name, "wheels") &&
             !strstr(e->d_name, ".json");
    if (d)
        closedir(d);
    return n;
}

static const char *file_source(void)
{
    static char text[256];
    snprintf(text, sizeof(text), "{\"url\":\"file://%s\"}", onnx);
    return text;
}

static const char *wheel_source(const char *sha, const char *member, const char *member_sha)
{
    static char text[512];
    snprintf(text, sizeof(text),
             "{\"wheel\":{\"package\":\"tinynet\",\"version\":\"1.0\",\"file\":\"%s\",\"sha256\":\"%s\","
             "\"member\":\"%s\",\"member_sha256\":\"%s\"}}",
             wheel_name, sha, member, member_sha);
    return text;
}

static void put_wheel(void)
{
    char *dir = tachy_asprintf("%s/wheels", models), *to = tachy_asprintf("%s/%s", dir, wheel_name);
    CHECK_INT(mkdir(dir, 0777), 0);
    CHECK_INT(symlink(wheel, to), 0);
    tachy_free(dir);
    tachy_free(to);
}

static const char zeros[] = "0000000000000000000000000000000000000000000000000000000000000000";

TEST(sha256_of_known_texts)
{
    char hex[65], *path = tachy_asprintf("%s/abc", folder);
    write_text(path, "abc"); // FIPS 180-4, example B.1
    CHECK_INT(tachy_sha256_file(path, hex, &logger), TACHY_OK);
    CHECK_STR(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    write_text(path, "");
    CHECK_INT(tachy_sha256_file(path, hex, &logger), TACHY_OK);
    CHECK_STR(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    CHECK_INT(tachy_sha256_file("/nowhere/x", hex, &logger), TACHY_ERR_NOT_FOUND);
    CHECK_INT(tachy_sha256_file(folder, hex, &logger), TACHY_ERR_IO);
    // A long one in two unequal pieces is the same as in one.
    static uint8_t data[300001];
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(i * 7 + (i >> 8));
    struct AVSHA *d = digest_new();
    char pieces[65];
    digest_add(d, data, 65);
    digest_add(d, data + 65, sizeof(data) - 65);
    digest_hex(&d, pieces);
    CHECK(!d);
    CHECK_INT(tachy_write_file(path, data, sizeof(data), &logger), TACHY_OK);
    CHECK_INT(tachy_sha256_file(path, hex, &logger), TACHY_OK);
    CHECK_STR(hex, pieces);
    tachy_free(path);
}

TEST(lists_and_finds)
{
    fresh();
    write_card(onnx_sha, file_source());
    char *path = tachy_asprintf("%s/broken.json", models), *json;
    write_text(path, "{\"name\":");
    CHECK_INT(tachy_model_list(&json, models, &logger), TACHY_OK);
    CHECK(strstr(warned, "broken.json")); // left out, with a warning
    CHECK_STR(said, "");
    json_t *list = json_loads(json, 0, NULL);
    CHECK_INT(json_array_size(list), 10);
    CHECK_STR(json_string_value(json_object_get(json_array_get(list, 0), "name")), "selfie");
    CHECK_STR(json_string_value(json_object_get(json_array_get(list, 1), "name")), "selfie-landscape");
    json_t *tiny = json_array_get(list, 9);
    CHECK_STR(json_string_value(json_object_get(tiny, "name")), "tiny");
    CHECK(json_is_false(json_object_get(tiny, "present")));
    json_decref(list);
    tachy_free(json);
    tachy_free(path);
    CHECK_INT(open_model("selfy", false), TACHY_ERR_NOT_FOUND);
    CHECK_SAID("did you mean selfie?");
    CHECK_INT(open_model("tiny", false), TACHY_ERR_NOT_FOUND);
    CHECK_SAID("`tachy model pull tiny` gets it");
    CHECK_INT(open_model("x/y.onnx", false), TACHY_ERR_NOT_FOUND);
    CHECK_SAID("x/y.onnx: there is no such file");
}

TEST(fetches_under_conditions_only_when_accepted)
{
    for (int permissive = 0; permissive <= 1; permissive++) {
        fresh();
        write_licensed(permissive ? "Apache-2.0" : "GPL-3.0-only", onnx_sha, file_source());
        CHECK_INT(open_model("tiny", true), permissive ? TACHY_OK : TACHY_ERR_INVAL);
        CHECK_INT(count_files(), permissive);
    }
    fresh();
    write_licensed("GPL-3.0-only", onnx_sha, file_source());
    CHECK_INT(open_model("tiny", true), TACHY_ERR_INVAL);
    CHECK_SAID("its licence is GPL-3.0-only");
    CHECK_SAID("tachy model pull tiny --accept-licence");
    tachy_model *m;
    struct tachy_model_params p = {.name = "tiny", .dir = models, .fetch = true, .accept_licence = true, .log = &logger};
    CHECK_INT(tachy_model_open(&m, &p), TACHY_OK);
    tachy_model_close(&m);
    CHECK_INT(open_model("tiny", true), TACHY_OK); // it is there: nothing has to be accepted any more
}

TEST(fetches_a_file)
{
    fresh();
    write_card(onnx_sha, file_source());
    CHECK_INT(open_model("tiny", true), TACHY_OK);
    CHECK_INT(count_files(), 1);
    CHECK_INT(open_model("tiny", false), TACHY_OK); // it is there now
    // Damaged by somebody else: detected, and downloaded again only on request.
    char *path = tachy_asprintf("%s/tiny.onnx", models);
    write_text(path, "damaged");
    CHECK_INT(open_model("tiny", false), TACHY_ERR_DIGEST);
    CHECK_SAID("`tachy model pull tiny` gets it again");
    CHECK_INT(open_model("tiny", true), TACHY_OK);
    CHECK_INT(open_model("tiny", false), TACHY_OK);
    tachy_free(path);

    fresh();
    write_card(zeros, file_source());
    CHECK_INT(open_model("tiny", true), TACHY_ERR_DIGEST);
    CHECK_SAID(zeros);
    CHECK_INT(count_files(), 0);

    fresh();
    write_card(onnx_sha, "{\"file\":\"../tiny-source.onnx\"}"); // beside the card
    CHECK_INT(open_model("tiny", true), TACHY_OK);

    fresh();
    write_card("", "{\"url\":\"file:///nowhere/x.onnx\"}");
    CHECK_INT(open_model("tiny", true), TACHY_ERR_NOT_FOUND);
    CHECK_SAID("file:///nowhere/x.onnx");
    write_card("", "");
    CHECK_INT(open_model("tiny", true), TACHY_ERR_NOT_FOUND);
    CHECK_SAID("names no source");
    // The downloaded file is not a TFLite file.
    char *source = tachy_asprintf("{\"file\":\"%s\",\"import\":\"tflite\"}", onnx);
    write_card("", source);
    CHECK_INT(open_model("tiny", true), TACHY_ERR_FORMAT);
    CHECK_INT(count_files(), 0);
    tachy_free(source);
    // A source that lies about its own digest.
    source = tachy_asprintf("{\"file\":\"%s\",\"sha256\":\"%s\"}", onnx, zeros);
    write_card(onnx_sha, source);
    CHECK_INT(open_model("tiny", true), TACHY_ERR_DIGEST);
    CHECK_INT(count_files(), 0);
    tachy_free(source);
}

TEST(sources_in_order)
{
    fresh();
    char *both = tachy_asprintf("{\"url\":\"file:///nowhere/x.onnx\"},%s", file_source());
    write_card(onnx_sha, both);
    CHECK_INT(open_model("tiny", true), TACHY_OK);
    CHECK(strstr(warned, "/nowhere/x.onnx") && strstr(warned, "trying the next source"));
    CHECK_STR(said, "");
    tachy_free(both);
}

TEST(fetches_out_of_a_wheel)
{
    fresh();
    put_wheel();
    write_card(onnx_sha, wheel_source(wheel_sha, "tinynet/tiny.bin", onnx_sha));
    CHECK_INT(open_model("tiny", true), TACHY_OK);
    CHECK_INT(count_files(), 1);

    fresh();
    put_wheel();
    write_card(onnx_sha, wheel_source(zeros, "tinynet/tiny.bin", onnx_sha));
    CHECK_INT(open_model("tiny", true), TACHY_ERR_DIGEST);
    write_card(onnx_sha, wheel_source(wheel_sha, "tinynet/tiny.bin", zeros));
    CHECK_INT(open_model("tiny", true), TACHY_ERR_DIGEST);
    CHECK_SAID("tinynet/tiny.bin");
    write_card(zeros, wheel_source(wheel_sha, "tinynet/tiny.bin", onnx_sha));
    CHECK_INT(open_model("tiny", true), TACHY_ERR_DIGEST);
    CHECK_SAID("tiny.onnx");
    write_card(onnx_sha, wheel_source(wheel_sha, "tinynet/other.bin", onnx_sha));
    CHECK_INT(open_model("tiny", true), TACHY_ERR_NOT_FOUND);
    CHECK_SAID("has no member tinynet/other.bin");
    write_card(onnx_sha, wheel_source(onnx_sha, "tinynet/tiny.bin", onnx_sha));
    CHECK_INT(open_model("tiny", true), TACHY_ERR_DIGEST); // another file's digest
    CHECK_INT(count_files(), 0);

    // Not here, and no Python to get it with (main() sets TACHY_PYTHON to one without pip).
    fresh();
    write_card(onnx_sha, wheel_source(wheel_sha, "tinynet/tiny.bin", onnx_sha));
    CHECK_INT(open_model("tiny", true), TACHY_ERR_UNAVAILABLE);
    CHECK_SAID("needs Python 3 with pip");
    CHECK_INT(count_files(), 0);
}

// A Python that is no Python: it writes the wheel where pip would.
TEST(gets_a_wheel_with_pip)
{
    fresh();
    char *fake = tachy_asprintf("%s/python", folder);
    char *text = tachy_asprintf("#!/bin/sh\n"
                                "case \"$*\" in *--version) exit 0;; esac\n"
                                "while [ \"$1\" != -d ]; do shift; done\n"
                                "[ \"$3\" = tinynet==1.0 ] && cp '%s' \"$2/%s\"\n",
                                wheel, wheel_name);
    write_text(fake, text);
    CHECK_INT(chmod(fake, 0755), 0);
    setenv("TACHY_PYTHON", fake, 1);
    write_card(onnx_sha, wheel_source(wheel_sha, "tinynet/tiny.bin", onnx_sha));
    CHECK_INT(open_model("tiny", true), TACHY_OK);
    char *kept = tachy_asprintf("%s/wheels/%s", models, wheel_name);
    CHECK_INT(access(kept, R_OK), 0);
    CHECK_INT(unlink(kept), 0);

    write_text(fake, "#!/bin/sh\ncase \"$*\" in *--version) exit 0;; esac\n"
                     "echo no route to the registry\nexit 1\n");
    CHECK_INT(chmod(fake, 0755), 0);
    fresh();
    write_card(onnx_sha, wheel_source(wheel_sha, "tinynet/tiny.bin", onnx_sha));
    CHECK_INT(open_model("tiny", true), TACHY_ERR_IO);
    CHECK_SAID("pip download` failed: no route to the registry");
    setenv("TACHY_PYTHON", "/bin/false", 1);
    tachy_free(kept);
    tachy_free(text);
    tachy_free(fake);
}

static void *pull(void *arg)
{
    tachy_model *m;
    int err = tachy_model_open(&m, &(struct tachy_model_params){
                                       .name = "tiny", .dir = models, .fetch = true});
    tachy_model_close(&m);
    return err ? NULL : arg;
}

TEST(pulls_at_the_same_time)
{
    pthread_t t[8];
    for (int round = 0; round < 5; round++) {
        fresh();
        put_wheel();
        write_card(onnx_sha, wheel_source(wheel_sha, "tinynet/tiny.bin", onnx_sha));
        for (int i = 0; i < 8; i++)
            CHECK_INT(pthread_create(&t[i], NULL, pull, models), 0);
        for (int i = 0; i < 8; i++) {
            void *ok;
            pthread_join(t[i], &ok);
            CHECK(ok);
        }
        CHECK_INT(count_files(), 1);
        CHECK_INT(open_model("tiny", false), TACHY_OK);
    }
}

TEST(own_file_and_card)
{
    fresh();
    write_card(onnx_sha, "");
    char *card = tachy_asprintf("%s/tiny.json", models);
    struct tachy_model_params p = {.name = onnx, .card = card, .dir = models, .log = &logger};
    tachy_model *m;
    CHECK_INT(tachy_model_open(&m, &p), TACHY_OK);
    if (m) {
        CHECK_STR(tachy_model_path(m), onnx);
        CHECK_STR(tachy_model_card(m)->name, "tiny");
    }
    tachy_model_close(&m);
    write_card(zeros, "");
    CHECK_INT(tachy_model_open(&m, &p), TACHY_ERR_DIGEST);
    p.no_verify = true;
    CHECK_INT(tachy_model_open(&m, &p), TACHY_OK);
    tachy_model_close(&m);
    p.name = "/nowhere/m.onnx";
    CHECK_INT(tachy_model_open(&m, &p), TACHY_ERR_NOT_FOUND);
    p.name = "other";
    CHECK_INT(tachy_model_open(&m, &p), TACHY_ERR_INVAL);
    p.name = NULL; // the card's own file, which is not there
    CHECK_INT(tachy_model_open(&m, &p), TACHY_ERR_NOT_FOUND);
    p.card = NULL;
    CHECK_INT(tachy_model_open(&m, &p), TACHY_ERR_INVAL);
    tachy_free(card);
}

// Opens the file as its card says and holds it against the card; -77: no ONNX Runtime here.
static int fit(const struct tachy_card *card, const char *path)
{
    tachy_engine *e;
    int err = tachy_engine_open(&e, tachy_engine_params(.model_path = path, .log = &logger));
    if (err == TACHY_ERR_UNAVAILABLE)
        return -77;
    CHECK_INT(err, TACHY_OK);
    if (err)
        return err;
    const struct tachy_io *in, *out;
    int n = tachy_engine_inputs(e, &in), m = tachy_engine_outputs(e, &out);
    err = tachy_card_check(card, in, n, out, m, &logger);
    for (int i = 0; i < card->n_decoders && err == TACHY_OK; i++) {
        tachy_decoder *d;
        err = tachy_decoder_open(&d, card, &card->decoder[i], out, m, 1, &logger);
        tachy_decoder_close(&d);
    }
    tachy_engine_close(&e);
    return err;
}

// The zoo itself: out of the pinned wheel where tools/setup has fetched it.
TEST(built_in_models)
{
    static const char *const names[] = {"selfie", "selfie-landscape", "face", "face-far", "face-mesh",
                                        "face-mesh-attention", "person", "pose"};
    fresh();
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(names); i++) {
        tachy_model *m;
        struct tachy_model_params p = {.name = names[i], .dir = models, .fetch = true, .log = &logger};
        int err = tachy_model_open(&m, &p);
        if (err == TACHY_ERR_UNAVAILABLE) {
            printf("skipped: the mediapipe wheel is not here\n");
            return;
        }
        CHECK_INT(err, TACHY_OK);
        if (err) {
            fprintf(stderr, "%s\n", said);
            return;
        }
        CHECK_INT(strlen(tachy_model_card(m)->sha256), 64);
        err = fit(tachy_model_card(m), tachy_model_path(m));
        CHECK(err == TACHY_OK || err == -77);
        tachy_model_close(&m);
    }
    CHECK_INT(count_files(), TACHY_ARRAY_SIZE(names));
}

// A card for a public model, as a user would write it; it fits, and with one key wrong not.
static void own_card(const char *model, const char *good, const char *from, const char *to)
{
    const char *shared = getenv("TACHY_SHARED"), *root = getenv("TACHY_TEST_ROOT");
    char *path = tachy_asprintf("%s%s/models/segment/%s", shared ? shared : root ? root : "",
                                shared ? "" : "/../shared", model);
    const char *at = strstr(good, from);
    char *bad = tachy_asprintf("%.*s%s%s", (int)(at - good), good, to, at + strlen(from));
    struct card_doc *d;
    if (access(path, R_OK) == 0) {
        CHECK_INT(card_parse(&d, good, strlen(good), model, &logger), TACHY_OK);
        int err = fit(&d->card, path);
        CHECK(err == TACHY_OK || err == -77);
        card_free(&d);
        CHECK_INT(card_parse(&d, bad, strlen(bad), model, &logger), TACHY_OK);
        err = fit(&d->card, path);
        CHECK(err == TACHY_ERR_MISMATCH || err == -77);
        card_free(&d);
    } else {
        printf("skipped: %s is not here\n", path);
    }
    tachy_free(path);
    tachy_free(bad);
}

TEST(public_models)
{
    static const char meet[] =
        "{\"name\":\"meet\",\"task\":\"segment\",\"file\":\"mediapipe_selfie.onnx\","
        "\"input\":{\"width\":256,\"height\":144,\"layout\":\"nhwc\",\"scale\":0.00392156886},"
        "\"output\":{\"meaning\":\"softmax\",\"channel\":1}}";
    static const char deeplab[] =
        "{\"name\":\"deeplab\",\"task\":\"segment\",\"file\":\"deeplab_v3_1_default_1.onnx\","
        "\"input\":{\"width\":257,\"height\":257,\"layout\":\"nhwc\",\"scale\":0.00784313772,"
        "\"mean\":1},\"output\":{\"meaning\":\"softmax\",\"channel\":15}}";
    own_card("mediapipe_selfie.onnx", meet, "144", "256");
    own_card("mediapipe_selfie.onnx", meet, "\"softmax\",\"channel\":1", "\"logit\"");
    own_card("deeplab_v3_1_default_1.onnx", deeplab, "nhwc", "nchw");
    own_card("deeplab_v3_1_default_1.onnx", deeplab, "15", "21");
}

TEST(paths_and_names)
{
    CHECK(tachy_model_is_path("net.onnx") && tachy_model_is_path("./net") && tachy_model_is_path("a/selfie"));
    CHECK(!tachy_model_is_path("selfie") && !tachy_model_is_path("my.onnx.net") && !tachy_model_is_path(".onnx"));
    CHECK(!tachy_model_is_path("") && !tachy_model_is_path(NULL));
}

int main(void)
{
    static const struct test_case cases[] = {
        TEST_CASE(sha256_of_known_texts),  TEST_CASE(lists_and_finds),
        TEST_CASE(fetches_under_conditions_only_when_accepted),
        TEST_CASE(fetches_a_file),         TEST_CASE(sources_in_order),
        TEST_CASE(fetches_out_of_a_wheel), TEST_CASE(gets_a_wheel_with_pip),
        TEST_CASE(pulls_at_the_same_time), TEST_CASE(own_file_and_card),
        TEST_CASE(built_in_models),        TEST_CASE(public_models),
        TEST_CASE(paths_and_names),
    };
    snprintf(folder, sizeof(folder), "/tmp/tachy-zoo-XXXXXX");
    setenv("TACHY_PYTHON", "/bin/false", 1); // no test asks the network
    if (!mkdtemp(folder) || !make_files())
        return 1;
    int status = test_run(cases, TACHY_ARRAY_SIZE(cases));
    char *command = tachy_asprintf("rm -rf %s", folder);
    if (command && system(command) != 0)
        fprintf(stderr, "%s stays\n", folder);
    tachy_free(command);
    return status;
}
