#pragma once
#include <tachy/preprocess.h>

#ifdef __cplusplus
extern "C" {
#endif

// Model cards: JSON beside a model that says what it is, where it can be had and its whole
// contract. docs/models.md documents every key.

enum tachy_output_meaning {
    TACHY_OUT_UNKNOWN = 0,
    TACHY_OUT_PROBABILITY,  // one channel, 0..1, person
    TACHY_OUT_LOGIT,        // one channel, sigmoid gives the probability
    TACHY_OUT_SOFTMAX,      // several channels of logits; `channel` is the person
    TACHY_OUT_PROBABILITIES // several channels that sum to 1; `channel` is the person
};

#define TACHY_MAX_STATES 8
#define TACHY_MAX_CONSTANTS 4
#define TACHY_MAX_CONSTANT_VALUES 16

// What a recurrent network keeps from picture to picture: its output goes into its input with the
// next picture of the same stream and eye.
struct tachy_card_state {
    const char *input, *output; // names
    float start;                // every element of the first one
    int rank;                   // of `shape`; 0: the card leaves it to the model
    int64_t shape[TACHY_MAX_RANK];
};

// An input that is the same for every picture.
struct tachy_card_constant {
    const char *input;
    int n; // values: 1, or as many as the input has elements
    float value[TACHY_MAX_CONSTANT_VALUES];
};

struct tachy_card {
    const char *name;      // "selfie", lower case, unique in the zoo
    const char *title;     // "MediaPipe selfie segmentation, square"
    const char *task;      // "segment"
    const char *network;
    const char *license;   // SPDX identifier
    const char *file;      // file name of the ONNX model in the model folder
    const char *sha256;    // of that file, 64 hex digits; "" where it is not pinned
    const char *input;     // name of the image input; "" = the only one
    const char *output;    // name of the output; "" = the only one
    struct tachy_preprocess_params in; // width, height, layout, channels, fit, scale, mean, std
    enum tachy_output_meaning meaning;
    int channel;           // person channel for several-channel outputs
    enum tachy_layout out_layout;
    int out_width, out_height; // 0: taken from the model
    // What mode live may run instead where frames miss their deadline: another card's name, "" for
    // none; or this model with these extents, 0 for none.
    const char *smaller;
    int smaller_width, smaller_height;
    int n_states, n_constants; // 0: every picture for itself; none
    struct tachy_card_state state[TACHY_MAX_STATES];
    struct tachy_card_constant constant[TACHY_MAX_CONSTANTS];
};

typedef struct tachy_model tachy_model; // a card and the place of its file

struct tachy_model_params {
    const char *name;   // a card's name of the zoo, or the path of an ONNX file
    const char *card;   // path of a card; required where `name` is a path
    const char *dir;    // model folder; NULL: $TACHY_MODELS, else the user's data folder
    bool fetch;         // get what is missing from the card's sources
    bool no_verify;     // skip the digest (start-up time); size is checked all the same
    const struct tachy_log *log;
};

// Finds (and with `fetch` gets) a model and checks its digest. Errors: TACHY_ERR_NOT_FOUND
// (unknown name: the nearest is named; file missing: the command that gets it is named),
// TACHY_ERR_DIGEST, TACHY_ERR_FORMAT (card), TACHY_ERR_IO.
TACHY_API int tachy_model_open(tachy_model **out, const struct tachy_model_params *p);
TACHY_API const struct tachy_card *tachy_model_card(const tachy_model *m); // until close
TACHY_API const char *tachy_model_path(const tachy_model *m);              // until close
TACHY_API void tachy_model_close(tachy_model **m);

// The zoo as JSON: an array of cards, each with "present" and "path". Free with tachy_free(). `dir` may be
// NULL, as in tachy_model_params.
TACHY_API int tachy_model_list(char **json, const char *dir, const struct tachy_log *log);

// Turns a TFLite file into an ONNX file (float32; fp16 weights are widened) and writes a
// card skeleton to `card_out`. *report receives JSON: operators, inputs, outputs, bytes; free
// with tachy_free(). `card_out` and `report` may be NULL: not wanted. TACHY_ERR_FORMAT for
// damaged files, TACHY_ERR_UNSUPPORTED names the operator.
TACHY_API int tachy_model_import(const char *tflite_path, const char *onnx_path,
                                 const char *card_out, char **report, const struct tachy_log *log);

// SHA-256 of a file as 64 lower-case hex digits and a NUL.
TACHY_API int tachy_sha256_file(const char *path, char hex[65], const struct tachy_log *log);

#ifdef __cplusplus
}
#endif
