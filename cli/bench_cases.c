#include "bench.h"

#include <stdarg.h>
#include <string.h>

// The suites of `tachy bench`.

__attribute__((format(printf, 2, 3))) static void add_word_to(struct bench_case *k, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(k->word[k->n_words++], BENCH_WORD, fmt, args);
    va_end(args);
}

// A case of one input: the user's file, or a clip of this size.
static struct bench_case *add_case(struct bench_run *b, const char *suite, const char *name, int width, int height)
{
    struct bench_case *k = &b->list[b->n++];
    *k = (struct bench_case){.suite = suite, .width = b->file ? 0 : width, .height = b->file ? 0 : height};
    snprintf(k->name, sizeof(k->name), "%s", name);
    add_word_to(k, "--segment.mode=mask");
    if (!b->file)
        add_word_to(k, "--focus=off"); // nobody is in the clips: the model is to see whole frames
    return k;
}

static void to_nothing(struct bench_case *k)
{
    add_word_to(k, "-f");
    add_word_to(k, "null");
}

static void resolutions(struct bench_run *b)
{
    static const struct {
        const char *name;
        int width, height;
    } sizes[] = {{"1080p", 1920, 1080}, {"4K", 3840, 2160}, {"6K", 5760, 3240}, {"8K", 7680, 4320}};
    for (size_t i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
        char name[64];
        bool stereo = i % 2;
        snprintf(name, sizeof(name), "%s %s", sizes[i / 2].name, stereo ? "stereo" : "2D");
        struct bench_case *k = add_case(b, "resolution", name, sizes[i / 2].width, sizes[i / 2].height);
        add_word_to(k, "--stereo=%s", stereo ? "sbs" : "mono");
        if (b->file) // the user's picture at that size
            add_word_to(k, "--vf-in=scale=%d:%d", sizes[i / 2].width, sizes[i / 2].height);
        to_nothing(k);
    }
}

static void batches(struct bench_run *b, const int *sizes, int n)
{
    for (int i = 0; i < n; i++) {
        char name[64];
        snprintf(name, sizeof(name), "batch %d", sizes[i]);
        struct bench_case *k = add_case(b, "batch", name, 1920, 1080);
        add_word_to(k, "--batch=%d", sizes[i]);
        to_nothing(k);
    }
}

// On a CPU a model runs in its file's precision. On a GPU int8 needs a quantised model (--model); another one's case says so.
static void precisions(struct bench_run *b)
{
    static const char *const gpu[] = {"fp32", "mixed", "fp16", "int8"};
    bool cuda = !strcmp(tachy_settings_str(b->c->settings, "bench.device"), "cuda");
    for (int i = 0; i < (cuda ? 4 : 1); i++) {
        const char *name = cuda || !tachy_settings_is_set(b->c->settings, "model.name") ? gpu[i] : "the model as it is";
        struct bench_case *k = add_case(b, "precision", name, 1920, 1080);
        if (cuda)
            add_word_to(k, "--precision=%s", gpu[i]);
        to_nothing(k);
    }
}

static void stages(struct bench_run *b)
{
    static const char *const modes[] = {"mask", "cutout", "blur", "overlay"};
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        char name[64];
        snprintf(name, sizeof(name), "mode %s", modes[i]);
        struct bench_case *k = add_case(b, "stage", name, 1920, 1080);
        add_word_to(k, "--segment.mode=%s", modes[i]);
        to_nothing(k);
    }
}

static void codecs(struct bench_run *b)
{
    static const struct {
        const char *name, *codec, *ending, *preset;
    } all[] = {{"H.264 ultrafast", "libx264", "mp4", "ultrafast"}, {"H.264 veryfast", "libx264", "mp4", "veryfast"},
               {"H.264 medium", "libx264", "mp4", "medium"},       {"HEVC ultrafast", "libx265", "mp4", "ultrafast"},
               {"ProRes", "prores_ks", "mov", NULL},               {"FFV1", "ffv1", "mkv", NULL}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct bench_case *k = add_case(b, "codec", all[i].name, 1920, 1080);
        add_word_to(k, "--segment.mode=cutout");
        add_word_to(k, "-c:v");
        add_word_to(k, "%s", all[i].codec);
        if (all[i].preset)
            add_word_to(k, "--preset=%s", all[i].preset);
        add_word_to(k, "-y");
        add_word_to(k, "--output.file=%s/out.%s", b->folder, all[i].ending);
    }
}

// The programs that people write first, all with the same network.
#define OUR_NETWORK \
    "first = shape[-1] != 3\n" \
    "h, w = (shape[2:] if first else shape[1:3])\n" \
    "def work(f):\n" \
    "    x = cv2.cvtColor(cv2.resize(f, (w, h)), cv2.COLOR_BGR2RGB).astype(np.float32)[None] / 255\n" \
    "    m = np.squeeze(run(np.ascontiguousarray(x.transpose(0, 3, 1, 2) if first else x)))\n" \
    "    m = m if m.ndim == 2 else m[0]\n" \
    "    cv2.resize(m, (f.shape[1], f.shape[0]))\n"

static const struct bench_peer all_peers[] = {
    {"OpenCV + ONNX Runtime (Python)", "onnxruntime", "import onnxruntime as ort",
     "session = ort.InferenceSession(model, providers=['CPUExecutionProvider'])\n"
     "i = session.get_inputs()[0]\n"
     "shape = i.shape\n"
     "run = lambda x: session.run(None, {i.name: x})[0]\n" OUR_NETWORK},
    {"OpenCV + PyTorch (Python)", "torch onnx onnx2torch", "import torch, onnx, onnx2torch",
     "graph = onnx.load(model)\n"
     "shape = [d.dim_value or 1 for d in graph.graph.input[0].type.tensor_type.shape.dim]\n"
     "net = onnx2torch.convert(graph).eval()\n"
     "def run(x):\n"
     "    with torch.inference_mode():\n"
     "        y = net(torch.from_numpy(x))\n"
     "    return (y if torch.is_tensor(y) else y[0]).numpy()\n" OUR_NETWORK},
    {"OpenCV + MediaPipe (Python)", "mediapipe", "import mediapipe as mp",
     "segmenter = mp.solutions.selfie_segmentation.SelfieSegmentation(model_selection=0)\n"
     "def work(f):\n"
     "    segmenter.process(cv2.cvtColor(f, cv2.COLOR_BGR2RGB)).segmentation_mask\n"},
};

static void peers(struct bench_run *b)
{
    add_case(b, "peers", "tachy", 1920, 1080);
    to_nothing(&b->list[b->n - 1]);
    for (size_t i = 0; i < sizeof(all_peers) / sizeof(all_peers[0]); i++)
        add_case(b, "peers", all_peers[i].name, 1920, 1080)->peer = &all_peers[i];
}

int bench_cases(struct bench_run *b)
{
    static const int few[] = {1, 4}, many[] = {1, 4, 8, 16, 32};
    static const struct {
        const char *path;
        void (*add)(struct bench_run *b);
    } suites[] = {{"bench.resolution", resolutions}, {"bench.batch", NULL}, {"bench.precision", precisions}, {"bench.stage", stages},
                  {"bench.codec", codecs}};
    const tachy_settings *s = b->c->settings;
    bool any = tachy_settings_bool(s, "bench.peers"), quick = tachy_settings_bool(s, "bench.quick");
    for (size_t i = 0; i < sizeof(suites) / sizeof(suites[0]); i++)
        any |= tachy_settings_bool(s, suites[i].path);
    if (quick && !any)
        batches(b, few, 2);
    for (size_t i = 0; i < sizeof(suites) / sizeof(suites[0]) && !(quick && !any); i++)
        if (!any || tachy_settings_bool(s, suites[i].path)) {
            if (suites[i].add)
                suites[i].add(b);
            else
                batches(b, many, 5);
        }
    if (tachy_settings_bool(s, "bench.peers"))
        peers(b);
    return STATUS_OK;
}
