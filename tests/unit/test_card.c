#include "test.h"

#include "base/base.h"
#include "model/card.h"

#include <stdlib.h>
#include <unistd.h>

static char said[1024];

static void listen(void *user, enum tachy_log_level level, const char *msg)
{
    if (level == TACHY_LOG_ERR)
        snprintf(said, sizeof(said), "%s", msg);
}

static const struct tachy_log logger = {.fn = listen};

static const char good[] =
    "{\"version\":1,\"name\":\"mine\",\"title\":\"My network\",\"task\":\"segment\","
    "\"network\":\"U-Net\",\"license\":\"MIT\",\"file\":\"mine.onnx\",\"bytes\":1234,"
    "\"sha256\":\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\","
    "\"input\":{\"name\":\"image\",\"width\":320,\"height\":180,\"layout\":\"nchw\","
    "\"channels\":\"bgr\",\"dtype\":\"float32\",\"fit\":\"letterbox\",\"scale\":0.5,"
    "\"mean\":[1,2.5,3],\"std\":2,\"pad\":114},"
    "\"output\":{\"name\":\"mask\",\"meaning\":\"softmax\",\"channel\":1,\"layout\":\"nhwc\","
    "\"width\":160,\"height\":90},"
    "\"state\":[{\"input\":\"h0\",\"output\":\"h1\",\"shape\":[1,8,4],\"start\":0.5}],\"warm_up\":3,\"constants\":{\"ratio\":0.25,\"pair\":[1,-2]},"
    "\"sources\":[{\"url\":\"https://example.org/mine.onnx\"},"
    "{\"wheel\":{\"package\":\"p\",\"version\":\"1.0\",\"file\":\"p-1.0-py3-none-any.whl\","
    "\"sha256\":\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\","
    "\"member\":\"p/m.tflite\","
    "\"member_sha256\":\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"},"
    "\"import\":\"tflite\"},{\"file\":\"local.onnx\"}]}";

TEST(reads_every_key)
{
    struct card_doc *d;
    CHECK_INT(card_parse(&d, good, strlen(good), "good.json", &logger), TACHY_OK);
    if (!d)
        return;
    const struct tachy_card *c = &d->card;
    CHECK_STR(c->name, "mine");
    CHECK_STR(c->title, "My network");
    CHECK_STR(c->license, "MIT");
    CHECK_STR(c->file, "mine.onnx");
    CHECK_STR(c->input, "image");
    CHECK_STR(c->output, "mask");
    CHECK_INT(d->file[CARD_MODEL].bytes, 1234);
    CHECK_INT(c->in.width, 320);
    CHECK_INT(c->in.height, 180);
    CHECK_INT(c->in.layout, TACHY_NCHW);
    CHECK_INT(c->in.channels, TACHY_BGR);
    CHECK_INT(c->in.dtype, TACHY_F32);
    CHECK_INT(c->in.fit, TACHY_FIT_LETTERBOX);
    CHECK(c->in.scale == 0.5f && c->in.pad == 114);
    CHECK(c->in.mean[0] == 1 && c->in.mean[1] == 2.5f && c->in.mean[2] == 3);
    CHECK(c->in.std[0] == 2 && c->in.std[2] == 2);
    CHECK_INT(c->meaning, TACHY_OUT_SOFTMAX);
    CHECK_INT(c->channel, 1);
    CHECK_INT(c->n_states, 1);
    CHECK_STR(c->state[0].input, "h0");
    CHECK_STR(c->state[0].output, "h1");
    CHECK(c->state[0].start == 0.5f);
    CHECK_INT(c->state[0].rank, 3);
    CHECK_INT(c->state[0].shape[1], 8);
    CHECK_INT(c->warm_up, 3);
    CHECK_INT(c->n_constants, 2);
    CHECK_STR(c->constant[0].input, "ratio");
    CHECK(c->constant[0].n == 1 && c->constant[0].value[0] == 0.25f);
    CHECK(c->constant[1].n == 2 && c->constant[1].value[1] == -2);
    CHECK_INT(c->out_layout, TACHY_NHWC);
    CHECK_INT(c->out_width, 160);
    CHECK_INT(d->file[CARD_MODEL].n_sources, 3);
    CHECK_INT(d->file[CARD_MODEL].sources[0].kind, CARD_URL);
    CHECK_INT(d->file[CARD_MODEL].sources[1].kind, CARD_WHEEL);
    CHECK_STR(d->file[CARD_MODEL].sources[1].import, "tflite");
    CHECK_STR(d->file[CARD_MODEL].sources[1].member, "p/m.tflite");
    CHECK_INT(d->file[CARD_MODEL].sources[2].kind, CARD_FILE);
    CHECK_STR(d->file[CARD_MODEL].sources[2].path, "local.onnx");
    card_free(&d);
    CHECK(!d);
}

TEST(defaults)
{
    static const char least[] = "{\"name\":\"a\",\"task\":\"segment\",\"file\":\"a.onnx\","
                                "\"input\":{\"width\":1,\"height\":16384,\"layout\":\"nhwc\"},"
                                "\"output\":{\"meaning\":\"logit\"}}";
    struct card_doc *d;
    CHECK_INT(card_parse(&d, least, strlen(least), "least.json", &logger), TACHY_OK);
    if (!d)
        return;
    CHECK_STR(d->card.title, "a");
    CHECK_STR(d->card.sha256, "");
    CHECK_STR(d->card.input, "");
    CHECK_INT(d->card.in.channels, TACHY_RGB);
    CHECK_INT(d->card.in.dtype, TACHY_F32);
    CHECK(d->card.in.scale == 1 && d->card.in.mean[1] == 0 && d->card.in.std[1] == 1);
    CHECK_INT(d->card.out_layout, TACHY_NHWC); // as the input
    CHECK_INT(d->file[CARD_MODEL].n_sources, 0);
    CHECK_STR(d->card.smaller, "");
    CHECK_INT(d->card.smaller_width, 0);
    card_free(&d);
}

// The good card with one place changed.
static const struct {
    const char *from, *to, *says;
} broken[] = {
    {"\"version\":1", "\"version\":2", "`version` is newer than the 1"},
    {"\"version\":1", "\"version\":\"1\"", "`version` must be a whole number"},
    {"\"name\":\"mine\"", "\"nane\":\"mine\"", "`nane` is not a key of model cards; did you mean `name`?"},
    {"\"name\":\"mine\"", "\"name\":\"\"", "`name` must not be empty"},
    {"\"name\":\"mine\"", "\"name\":7", "`name` must be a text"},
    {"\"name\":\"mine\"", "\"name\":\"Mine\"", "`name` must be a plain name"},
    {"\"name\":\"mine\"", "\"name\":\"../x\"", "`name` must be a plain name"},
    {"\"name\":\"mine\"", "\"name\":\"a\",\"name\":\"b\"", "is not valid JSON"},
    {"\"task\":\"segment\",", "", "`task` is missing"},
    {"\"file\":\"mine.onnx\"", "\"file\":\"/etc/passwd\"", "`file` must be a plain name"},
    {"\"file\":\"mine.onnx\"", "\"file\":\".hidden\"", "`file` must be a plain name"},
    {"\"sha256\":\"0123", "\"sha256\":\"X123", "`sha256` must be a SHA-256"},
    {"\"sha256\":\"0123", "\"sha256\":\"", "`sha256` must be a SHA-256"},
    {"\"bytes\":1234", "\"bytes\":-1", "`bytes` must be a whole number"},
    {"\"input\":{", "\"input\":[],\"output2\":{", "`output2` is not a key"},
    {"\"width\":320,", "", "`input.width` is missing"},
    {"\"width\":320", "\"width\":0", "`input.width` must be a whole number from 1 to 16384"},
    {"\"width\":320", "\"width\":16385", "`input.width` must be a whole number"},
    {"\"width\":320", "\"width\":320.5", "`input.width` must be a whole number"},
    {"\"height\":180", "\"height\":\"180\"", "`input.height` must be a whole number"},
    {"\"layout\":\"nchw\",", "", "`input.layout` is missing"},
    {"\"layout\":\"nchw\"", "\"layout\":\"chw\"", "`input.layout` is \"chw\"; it must be one of nhwc, nchw"},
    {"\"channels\":\"bgr\"", "\"channels\":\"grb\"", "`input.channels` is \"grb\""},
    {"\"dtype\":\"float32\"", "\"dtype\":\"float\"", "`input.dtype` is \"float\"; it must be one of float32"},
    {"\"fit\":\"letterbox\"", "\"fit\":\"pad\"", "`input.fit` is \"pad\""},
    {"\"scale\":0.5", "\"scale\":0", "`input.scale` must not be 0"},
    {"\"scale\":0.5", "\"scale\":1e300", "`input.scale` must be a number"},
    {"\"scale\":0.5", "\"scale\":\"half\"", "`input.scale` must be a number"},
    {"\"mean\":[1,2.5,3]", "\"mean\":[1,2.5]", "`input.mean` must have three numbers"},
    {"\"mean\":[1,2.5,3]", "\"mean\":[1,null,3]", "`input.mean` must be a number"},
    {"\"std\":2", "\"std\":[1,0,1]", "`input.std` must not be 0"},
    {"\"pad\":114", "\"pad\":256", "`input.pad` must be from 0 to 255"},
    {"\"pad\":114", "\"padding\":1", "`input.padding` is not a key"},
    {"\"meaning\":\"softmax\",", "", "`output.meaning` is missing"},
    {"\"meaning\":\"softmax\"", "\"meaning\":\"unknown\"", "`output.meaning` is \"unknown\"; it must be one of"},
    {"\"channel\":1,", "", "`output.channel` is missing"},
    {"\"channel\":1", "\"channel\":-1", "`output.channel` must be a whole number"},
    {"\"meaning\":\"softmax\"", "\"meaning\":\"logit\"", "`output.channel` is for meanings with several"},
    {"\"width\":160,", "", "`output.width` and `output.height` go together"},
    {"\"state\":[{", "\"state\":[7,{", "`state[0].` must be an object"},
    {"\"state\":[{\"input\":\"h0\",\"output\":\"h1\",\"shape\":[1,8,4],\"start\":0.5}]", "\"state\":{}", "`state` must be an array"},
    {",\"output\":\"h1\"", "", "`state[0].output` is missing"},
    {"\"output\":\"h1\"", "\"out\":\"h1\"", "`state[0].out` is not a key"},
    {"[1,8,4]", "[1,0,4]", "`state[0].shape` must be extents from 1"},
    {"[1,8,4]", "[]", "`state[0].shape` must be an array of 1 to 8"},
    {"\"start\":0.5", "\"start\":null", "`state[0].start` must be a number"},
    {"\"warm_up\":3", "\"warm_up\":9", "`warm_up` must be a whole number from 0 to 8"},
    {"\"ratio\":0.25", "\"ratio\":\"x\"", "`constants.ratio` must be a number"},
    {"\"pair\":[1,-2]", "\"pair\":[]", "`constants.pair` must have 1 to 16 numbers"},
    {"\"ratio\":0.25", "\"a\":1,\"b\":1,\"c\":1,\"d\":1", "`constants` may have at most 4"},
    {"\"file\":\"mine.onnx\"", "\"file\":\"mine.onnx\",\"smaller\":\"../x\"", "`smaller` must be a plain name"},
    {"\"file\":\"mine.onnx\"", "\"file\":\"mine.onnx\",\"smaller\":\"mine\"", "`smaller` is this card itself"},
    {"\"file\":\"mine.onnx\"", "\"file\":\"mine.onnx\",\"smaller\":{\"width\":9}", "`smaller.height` is missing"},
    {"\"file\":\"mine.onnx\"", "\"file\":\"mine.onnx\",\"smaller\":{\"width\":320,\"height\":180}", "are no smaller picture"},
    {"\"file\":\"mine.onnx\"", "\"file\":\"mine.onnx\",\"smaller\":{\"w\":9}", "`smaller.w` is not a key"},
    {"\"sources\":[", "\"sources\":3,\"notes\":[", "`notes` must be a text"},
    {"{\"url\":\"https://example.org/mine.onnx\"}", "7", "`sources[0].` must be an object"},
    {"https://", "ftp://", "`sources[0].url` must begin with https://"},
    {"{\"url\":", "{\"file\":\"x\",\"url\":", "only one of them"},
    {"{\"url\":\"https://example.org/mine.onnx\"}", "{}", "`sources[0].url` or `wheel` or `file`"},
    {"{\"file\":\"local.onnx\"}", "{\"file\":7}", "`sources[2].file` must be a text"},
    {"\"import\":\"tflite\"", "\"import\":\"keras\"", "`sources[1].import` is \"keras\""},
    {"\"package\":\"p\"", "\"package\":\"--evil\"", "`sources[1].package` must be a plain name"},
    {"\"version\":\"1.0\"", "\"version\":\"1 0\"", "`sources[1].version` must be a plain name"},
    {"any.whl", "any.zip", "`sources[1].file` must end with .whl"},
    {"\"member\":\"p/m.tflite\",", "", "`sources[1].member` is missing"},
    {"\"member_sha256\"", "\"member_sha\"", "`sources[1].member_sha` is not a key"},
    {"\"import\":\"tflite\"", "\"sha256\":\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"",
     "`sources[1].sha256` belongs into `wheel`"},
    {"]}", "", "is not valid JSON"},
};

static char *replaced(const char *from, const char *to)
{
    const char *at = strstr(good, from);
    CHECK(at);
    return at ? tachy_asprintf("%.*s%s%s", (int)(at - good), good, to, at + strlen(from)) : NULL;
}

TEST(every_mistake_is_named)
{
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(broken); i++) {
        char *text = replaced(broken[i].from, broken[i].to);
        struct card_doc *d = (void *)1;
        said[0] = '\0';
        CHECK_INT(card_parse(&d, text, strlen(text), "bad.json", &logger), TACHY_ERR_FORMAT);
        CHECK(!d);
        if (strncmp(said, "bad.json", 8) || !strstr(said, broken[i].says)) {
            fprintf(stderr, "case %zu: \"%s\" does not say \"%s\"\n", i, said, broken[i].says);
            test_failures++;
        }
        tachy_free(text);
    }
}

TEST(no_prefix_and_no_flipped_byte_does_harm)
{
    struct card_doc *d;
    size_t n = strlen(good);
    char *text = tachy_asprintf("%s", good);
    for (size_t i = 0; i < n; i++) {
        CHECK(card_parse(&d, good, i, "cut.json", &logger) < 0);
        text[i] ^= 4;
        card_parse(&d, text, n, "flipped.json", &logger);
        card_free(&d);
        text[i] ^= 4;
    }
    tachy_free(text);
    CHECK_INT(card_parse(&d, "[]", 2, "list.json", &logger), TACHY_ERR_FORMAT);
    CHECK(strstr(said, "must be a JSON object"));
    CHECK_INT(card_read(&d, "/nowhere/card.json", &logger), TACHY_ERR_NOT_FOUND);
    CHECK(strstr(said, "/nowhere/card.json"));
}

// ---- A model against its card ----

static struct tachy_io io(const char *name, enum tachy_dtype dtype, int64_t n, int64_t a, int64_t b,
                          int64_t c)
{
    return (struct tachy_io){name, {.dtype = dtype, .rank = 4, .shape = {n, a, b, c}}};
}

static struct tachy_card square(void)
{
    return (struct tachy_card){
        .name = "sq", .input = "", .output = "", .plate = "", .hole = "", .foreground = "", .meaning = TACHY_OUT_PROBABILITY,
        .in = {.width = 32, .height = 16, .dtype = TACHY_F32}, .out_width = 32, .out_height = 16};
}

static int check(const struct tachy_card *c, struct tachy_io in, struct tachy_io out)
{
    said[0] = '\0';
    return tachy_card_check(c, &in, 1, &out, 1, &logger);
}

TEST(models_that_fit)
{
    struct tachy_card c = square();
    struct tachy_io in = io("i", TACHY_F32, 1, 16, 32, 3), out = io("o", TACHY_F32, 1, 16, 32, 1);
    CHECK_INT(check(&c, in, out), TACHY_OK);
    CHECK_INT(check(&c, io("i", TACHY_F32, -1, -1, -1, 3), io("o", TACHY_F16, -1, -1, -1, -1)), TACHY_OK);
    c.input = "i", c.output = "o";
    CHECK_INT(check(&c, in, out), TACHY_OK);
    struct tachy_io two[] = {io("x", TACHY_F32, 1, 1, 1, 1), out};
    CHECK_INT(tachy_card_check(&c, &in, 1, two, 2, &logger), TACHY_OK);
    c.in.layout = c.out_layout = TACHY_NCHW;
    CHECK_INT(check(&c, io("i", TACHY_F32, 1, 3, 16, 32), io("o", TACHY_F32, 1, 1, 16, 32)), TACHY_OK);
    c.in.channels = TACHY_LUMA, c.in.dtype = TACHY_U8, c.meaning = TACHY_OUT_SOFTMAX, c.channel = 15;
    CHECK_INT(check(&c, io("i", TACHY_U8, 1, 1, 16, 32), io("o", TACHY_F32, 1, 21, 16, 32)), TACHY_OK);
}

TEST(models_that_do_not)
{
    struct tachy_card c = square();
    struct tachy_io in = io("i", TACHY_F32, 1, 16, 32, 3), out = io("o", TACHY_F32, 1, 16, 32, 1);
#define REFUSED(in, out, says)                                                                     \
    do {                                                                                           \
        CHECK_INT(check(&c, in, out), TACHY_ERR_MISMATCH);                                         \
        if (!strstr(said, says)) {                                                                 \
            fprintf(stderr, "%s:%d: \"%s\" does not say \"%s\"\n", __FILE__, __LINE__, said, says);\
            test_failures++;                                                                       \
        }                                                                                          \
    } while (0)
    REFUSED(io("i", TACHY_F32, 1, 16, 16, 3), out, "`i` is 1x16x16x3, its card says 32 wide, 16 high, 3 channels");
    REFUSED(io("i", TACHY_F32, 1, 3, 16, 32), out, "it fits as layout nchw");
    REFUSED(io("i", TACHY_F32, 1, 16, 32, 1), out, "3 channels");
    REFUSED(io("i", TACHY_U8, 1, 16, 32, 3), out, "takes uint8, its card says dtype float32");
    REFUSED(io("i", TACHY_F32, 4, 16, 32, 3), out, "a fixed batch of 4");
    REFUSED(in, io("o", TACHY_F32, 1, 16, 32, 2), "2 channels in layout nhwc; its card says a single channel");
    REFUSED(in, io("o", TACHY_F32, 1, 8, 16, 1), "its card says 32 wide and 16 high");
    REFUSED(in, io("o", TACHY_I64, 1, 16, 32, 1), "`o` is int64");
    struct tachy_io flat = out;
    flat.spec.rank = 2;
    REFUSED(in, flat, "which is not one picture");
    c.meaning = TACHY_OUT_SOFTMAX, c.channel = 2;
    REFUSED(in, io("o", TACHY_F32, 1, 16, 32, 2), "several, the person in channel 2");
    c = square();
    c.input = "picture";
    REFUSED(in, out, "its card names the input `picture`, the model has `i`");
    c = square();
    struct tachy_io two[] = {in, in};
    CHECK_INT(tachy_card_check(&c, two, 2, &out, 1, &logger), TACHY_ERR_MISMATCH);
    CHECK(strstr(said, "has 2 inputs (`i`, `i`)"));
    struct tachy_io outs[] = {out, io("p", TACHY_F32, 1, 1, 1, 1)};
    CHECK_INT(tachy_card_check(&c, &in, 1, outs, 2, &logger), TACHY_ERR_MISMATCH);
    CHECK(strstr(said, "has 2 outputs (`o`, `p`), and its card does not name one in `output.name`"));
    CHECK_INT(tachy_card_check(&c, &in, 0, outs, 2, &logger), TACHY_ERR_MISMATCH);
}

TEST(recurrent_models)
{
    struct tachy_card c = square();
    c.input = "i";
    c.n_states = c.n_constants = 1;
    c.state[0] = (struct tachy_card_state){.input = "h0", .output = "h1"};
    c.constant[0] = (struct tachy_card_constant){"k", 1, {0.5f}};
    c.output = "o";
    struct tachy_io in[] = {io("h0", TACHY_F32, -1, 8, 4, 2), io("i", TACHY_F32, 1, 16, 32, 3),
                            io("k", TACHY_F32, 1, 1, 1, 1)};
    struct tachy_io out[] = {io("o", TACHY_F32, 1, 16, 32, 1), io("h1", TACHY_F32, -1, 8, 4, 2)};
#define SAYS(code, text)                                                                           \
    do {                                                                                           \
        said[0] = '\0';                                                                            \
        CHECK_INT(tachy_card_check(&c, in, 3, out, 2, &logger), code);                             \
        CHECK(strstr(said, text));                                                                 \
    } while (0)
    SAYS(TACHY_OK, "");
    in[0].spec.shape[1] = -1;
    SAYS(TACHY_OK, "");
    in[0].spec.shape[1] = 9;
    SAYS(TACHY_ERR_MISMATCH, "takes float32 ?x9x4x2, but `h1` gives float32 ?x8x4x2");
    in[0].spec.shape[1] = 8;
    in[2].spec.dtype = TACHY_I64;
    SAYS(TACHY_ERR_MISMATCH, "the constant `k` is int64; only float32");
    in[2].spec.dtype = TACHY_F32;
    c.constant[0].n = 3;
    SAYS(TACHY_ERR_MISMATCH, "gives 3 numbers");
    c.constant[0] = (struct tachy_card_constant){"i", 1, {0}};
    SAYS(TACHY_ERR_MISMATCH, "gives the input `i` twice");
    c.n_constants = 0;
    SAYS(TACHY_ERR_MISMATCH, "says nothing of the input `k`");
    c.n_states = 2;
    c.state[1] = (struct tachy_card_state){.input = "k", .output = "h1"};
    SAYS(TACHY_ERR_MISMATCH, "gives the output `h1` to two states");
#undef SAYS
}

TEST_MAIN(TEST_CASE(reads_every_key), TEST_CASE(recurrent_models), TEST_CASE(defaults), TEST_CASE(every_mistake_is_named),
          TEST_CASE(no_prefix_and_no_flipped_byte_does_harm), TEST_CASE(models_that_fit),
          TEST_CASE(models_that_do_not))
