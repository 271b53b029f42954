#include "base/base.h"
#include "stage/infer.h"
#include "stage/stages.h"
#include "task/task.h"

static const struct tachy_option options[] = {
    {"categorize.model", NULL, 0, TACHY_OPT_STRING, .arg = "NAME|FILE", .group = "Categories", .over = "model.name",
     .help = "model card of the network of pictures, with its network of texts; --model says the same"},
    {"categorize.search", "search", 0, TACHY_OPT_LIST, .arg = "TEXT", .group = "Categories", .at_end = true,
     .help = "print the frames of --embeddings that fit this text best; without inputs the file is only read"},
    {"categorize.like", "like", 0, TACHY_OPT_LIST, .arg = "PICTURE", .group = "Categories", .at_end = true,
     .help = "print the frames of --embeddings that are most like this picture"},
    {"categorize.hits", "hits", 0, TACHY_OPT_INT, "10", .min = 1, .max = 1000, .group = "Categories",
     .help = "frames that a search prints"},
    {0},
};

static const struct tachy_task_stage stages[] = {
    {&tachy_stage_preprocess, &tachy_stage_preprocess_cuda},
    {&tachy_stage_model, &tachy_stage_model_cuda},
    {&tachy_stage_decode, &tachy_stage_decode_cuda},
    {&tachy_stage_embeddings, &tachy_stage_embeddings},
    {&tachy_stage_categorize, &tachy_stage_categorize},
    {&tachy_stage_lines, &tachy_stage_lines},
    {0},
};

static const struct tachy_example examples[] = {
    {"tachy categorize --model clip.onnx --categories classes.json photos/ -o found/", "the category of each picture as JSON lines"},
    {"tachy categorize --model clip.onnx --embeddings photos.npy photos/ -o found/", "their vectors, for searches"},
    {"tachy categorize --model clip.onnx --embeddings photos.npy --search 'a red car'", "the pictures that show it"},
    {"tachy categorize --model clip.onnx --embeddings photos.npy --like car.jpg", "and those that are most like one"},
    {0},
};

static bool any(const tachy_settings *s, const char *const paths[], size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (tachy_settings_is_set(s, paths[i]))
            return true;
    return false;
}

static int check(const tachy_settings *s, const struct tachy_log *log)
{
    static const char *const models[] = {"model.name", "model.card", "categorize.model"};
    static const char *const asked[] = {"categorize.classes", "categorize.embeddings", "categorize.vectors"};
    static const char *const searches[] = {"categorize.search", "categorize.like"};
    if (!any(s, models, TACHY_ARRAY_SIZE(models)))
        return tachy_fail(log, TACHY_ERR_INVAL, "categorize needs a network: --model FILE, with a card beside it (docs/categorize.md)");
    if (!any(s, asked, TACHY_ARRAY_SIZE(asked)))
        return tachy_fail(log, TACHY_ERR_INVAL, "nothing is asked of the pictures: give --categories FILE, --embeddings FILE.npy or both");
    if (any(s, searches, TACHY_ARRAY_SIZE(searches)) && !tachy_settings_is_set(s, "categorize.embeddings"))
        return tachy_fail(log, TACHY_ERR_INVAL, "--search and --like look through --embeddings FILE.npy; name it");
    return TACHY_OK;
}

const struct tachy_task_ops tachy_task_categorize = {
    .info =
        {
            .name = "categorize",
            .summary = "sort pictures by texts, and search them",
            .details = "Compares each frame with texts by a network of the kind of CLIP: the best of your own classes, or a vector of "
                       "each frame, through which --search and --like look. The output is .jsonl or .csv "
                       "(docs/categorize.md).",
            .examples = examples,
        },
    .options = options,
    .stages = stages,
    .text = true,
    .check = check,
};
