// The parts without a pipeline: one picture through preprocess and engine. Prints the share of the picture that the
// model takes for a person, and its centre.
//
//   person_share PICTURE [MODEL]          MODEL: a name of `tachy model list`, default selfie
#include <stdio.h>
#include <tachy/engine.h>
#include <tachy/model.h>
#include <tachy/preprocess.h>
#include <tachy/source.h>

static void print_log(void *user, enum tachy_log_level level, const char *msg)
{
    fprintf(stderr, "%s\n", msg);
}

static const struct tachy_log log_to_stderr = {.fn = print_log, .max_level = TACHY_LOG_WARN};

// The first frame of a picture or video file. The caller's reference on success.
static int read_picture(const char *path, tachy_frame **frame)
{
    tachy_source *source = NULL;
    int err = tachy_source_open(&source, tachy_source_params(.url = path, .log = &log_to_stderr));
    if (err == TACHY_OK)
        err = tachy_source_read(source, frame);
    tachy_source_close(&source); // the frame lives on
    return err;
}

// A dense tensor for a model's input or output; free dimensions (batch) become 1.
static int make_tensor(struct tachy_tensor *t, const struct tachy_io *io)
{
    *t = io->spec;
    for (int i = 0; i < t->rank; i++)
        t->shape[i] = t->shape[i] < 0 ? 1 : t->shape[i];
    return tachy_tensor_alloc(t);
}

// Counts the elements of at least one half in a map of probabilities `width` wide.
static void print_share(const struct tachy_tensor *map, int width)
{
    const float *p = map->data;
    int64_t n = tachy_tensor_elements(map), count = 0;
    double x = 0, y = 0;
    for (int64_t i = 0; i < n; i++) {
        if (p[i] < 0.5f)
            continue;
        count++;
        x += (double)(i % width) + 0.5;
        y += (double)(i / width) + 0.5;
    }
    double height = (double)n / width;
    printf("person: %.1f %% of the picture\n", 100.0 * (double)count / (double)n);
    if (count)
        printf("centre: %.0f %% from the left, %.0f %% from the top\n",
               100.0 * x / (double)count / width, 100.0 * y / (double)count / height);
}

// Opens preprocess with the input that the card describes.
static int run(tachy_engine *engine, const struct tachy_card *card, const tachy_frame *frame)
{
    const struct tachy_io *inputs, *outputs;
    struct tachy_tensor in = {0}, out = {0};
    struct tachy_preprocess_params params = card->in;
    tachy_preprocess *preprocess = NULL;
    params.log = &log_to_stderr;

    int err = TACHY_ERR_UNSUPPORTED;
    if (tachy_engine_inputs(engine, &inputs) == 1 && tachy_engine_outputs(engine, &outputs) == 1 &&
        card->meaning == TACHY_OUT_PROBABILITY)
        err = make_tensor(&in, inputs);
    else
        fprintf(stderr, "%s is no network with one map of probabilities\n", card->name);
    if (err == TACHY_OK)
        err = make_tensor(&out, outputs);
    if (err == TACHY_OK)
        err = tachy_preprocess_open(&preprocess, &params);
    if (err == TACHY_OK)
        err = tachy_preprocess_run(preprocess, frame, NULL, &in, NULL);
    if (err == TACHY_OK)
        err = tachy_engine_run(engine, &in, &out);
    if (err == TACHY_OK)
        print_share(&out, card->out_width ? card->out_width : card->in.width);
    tachy_preprocess_close(&preprocess);
    tachy_tensor_free(&out);
    tachy_tensor_free(&in);
    return err;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s PICTURE [MODEL]\n", argv[0]);
        return 2;
    }
    tachy_frame *frame = NULL;
    tachy_model *model = NULL;
    tachy_engine *engine = NULL;
    struct tachy_model_params params = {
        .name = argc > 2 ? argv[2] : "selfie", .fetch = true, .log = &log_to_stderr};

    int err = read_picture(argv[1], &frame);
    if (err == TACHY_OK)
        err = tachy_model_open(&model, &params);
    if (err == TACHY_OK)
        err = tachy_engine_open(&engine, tachy_engine_params(.model_path = tachy_model_path(model),
                                                             .log = &log_to_stderr));
    if (err == TACHY_OK)
        err = run(engine, tachy_model_card(model), frame);
    tachy_engine_close(&engine);
    tachy_model_close(&model);
    tachy_frame_unref(&frame);
    return err == TACHY_OK ? 0 : 1;
}
