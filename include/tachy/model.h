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
    TACHY_OUT_PROBABILITIES, // several channels that sum to 1; `channel` is the person
    TACHY_OUT_ALPHA,        // one channel, 0..1, the share of the person in the pixel: a matte
    TACHY_OUT_PICTURE       // three channels: the picture with its holes filled
};

#define TACHY_MAX_STATES 8
#define TACHY_MAX_CONSTANTS 4
#define TACHY_MAX_CONSTANT_VALUES 16

// A value that a recurrent network keeps from picture to picture: the output becomes the input for the
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

// Kinds of decoders, by what they find in a network's outputs. docs/models.md gives the layout that each reads.
enum tachy_decoder_kind {
    TACHY_DECODE_YOLOX = 0,  // boxes: cells of a grid, logarithms of extents, objectness and classes
    TACHY_DECODE_YOLO,       // boxes: centre and extents in pixels, with or without objectness
    TACHY_DECODE_SSD,        // boxes: offsets from anchors
    TACHY_DECODE_DISTANCES,  // boxes: distances of the four sides from a cell's centre
    TACHY_DECODE_DETR,       // boxes: centre and extents as shares, a class for "nothing"
    TACHY_DECODE_CORNERS,    // boxes: corners as shares; the network has suppressed already
    TACHY_DECODE_POINTS,     // x, y(, z) of each point in pixels or as shares
    TACHY_DECODE_HEATMAPS,   // a map for each point
    TACHY_DECODE_CLASSES,    // a score for each class
    TACHY_DECODE_EMBEDDING,
    TACHY_DECODE_SCORE,      // one number: whether what the other decoders find is there
    TACHY_DECODE_RAW,        // every number, as it is
};

enum tachy_decoder_scores { TACHY_SCORES_AS_IS = 0, TACHY_SCORES_SIGMOID, TACHY_SCORES_SOFTMAX };

#define TACHY_MAX_DECODERS 8
#define TACHY_MAX_LEVELS 8 // outputs that together are one list of boxes, and strides

struct tachy_card_decoder {
    enum tachy_decoder_kind kind;
    // Names of outputs. Boxes may come in several, level after level, and so do what belongs to them.
    const char *output[TACHY_MAX_LEVELS]; // boxes, or what the other kinds read
    const char *scores[TACHY_MAX_LEVELS]; // SSD, DISTANCES, DETR, CORNERS; POINTS: [0] a map for each point that it is moved by, NULL: none
    const char *points[TACHY_MAX_LEVELS]; // SSD, DISTANCES: where they are not in the rows of boxes
    int levels;          // of each of these
    const char *classes; // CORNERS: the output of class numbers; "": none
    const char *count;   // CORNERS: the output that says how many boxes there are; "": all
    int nb_points;       // that a region has; 0: none
    int around[2];       // boxes: the region is the square around the first point that the second is on the upper
                         // edge of, turned so that it is; equal: the box
    const char *order;   // POINTS: a letter for each number of a point: x, y, z, s its score, v a logit of it,
                         // - something else
    const int *at;     // POINTS: the region's points, found by an earlier entry, that these stand in for; NULL: they are the points
    const int *depth_of; // POINTS with `at`: points whose mean depth those get that the region did not have; nb_depth_of of them
    int nb_depth_of;
    int window;        // POINTS with maps: cells of a map on a side, around the point, whose mean place counts; odd
    enum tachy_layout layout; // HEATMAPS
    int nb_strides;           // 0: the kind has no grid
    int stride[TACHY_MAX_LEVELS];   // pixels from cell to cell
    int per_cell[TACHY_MAX_LEVELS]; // SSD, DISTANCES: boxes in a cell
    float scale[4];    // SSD: what the offsets of x, y, w, h are divided by
    float anchor[2];   // SSD: extents of an anchor, shares of the picture
    float centre;      // DISTANCES: where in a cell its centre is, 0..1
    bool exponent;     // SSD: extents are logarithms
    bool yx;           // SSD, CORNERS: y comes before x
    bool objectness;   // YOLO: the fifth number of a row
    bool columns;      // YOLO: a box is a column, [4 + classes][boxes]
    bool shares;       // YOLO, POINTS: positions are shares of the picture, not pixels
    int nothing;       // softmax: number of the class that means nothing, from the end if negative; else INT_MAX
    enum tachy_decoder_scores how;
    float threshold;   // least score of a region or class, 0..1
    float overlap;     // intersection over union above which the lower of two boxes goes; 1: none goes
    bool agnostic;     // whatever their classes are
    bool blend;        // boxes that overlap the best are averaged with it by score
    int limit;         // most regions
    int top;           // CLASSES: most classes that are named
    const char *const *labels; // of classes, nb_labels of them
    int nb_labels;
};

// The network that makes vectors of texts which compare with those of pictures, as CLIP's. Texts are never NULL.
struct tachy_card_text {
    const char *file;       // of its ONNX model; "": the card has none
    const char *vocabulary; // file of the merges of byte pairs (docs/categorize.md)
    const char *input;      // name of the tokens' input; "": the only one
    const char *mask;       // name of an input that is 1 for each token up to the end; "": there is none
    const char *output;     // name of the vector's output; "": the only one
    int tokens;             // of a text, 2..1024
    int pad;                // token after the end
    float scale;            // that cosines are multiplied with before softmax
};

// The network that makes masks of what an image encoder has made of a picture and of prompts in it, as SAM 2's. Texts are never
// NULL. What it takes besides has the names of the encoder's outputs, or is a constant.
struct tachy_card_prompts {
    const char *file;   // of its ONNX model; "": the card has none
    const char *points; // input: N x P x 2, pixels of the encoder's picture
    const char *labels; // input: N x P: 0 not part of it, 1 part of it, 2 and 3 a box's corners, -1 no point
    const char *masks;  // output: N x ways x height x width, logits
    const char *scores; // output: N x ways, how good each is, 0..1
    int n_constants;
    struct tachy_card_constant constant[TACHY_MAX_CONSTANTS];
};

// The networks that follow things through a video by what they remember of them, as SAM 2's: files of ONNX models, beside the
// card's own, which is the encoder of pictures (docs/masks.md). All or none are "".
struct tachy_card_memory {
    const char *attention; // what is remembered becomes part of a picture's features
    const char *decoder;   // features, and points if there are any, become masks
    const char *encoder;   // features and a mask become a memory
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
    const char *foreground; // name of the output with the person's own colours; "": there is none
    const char *plate;     // name of the input that sees the scene without people, prepared as `in` says; "": there is none
    struct tachy_preprocess_params in; // width, height, layout, channels, fit, scale, mean, std
    bool free_batch; // the model takes any number of pictures in a run
    enum tachy_output_meaning meaning;
    int channel;           // person channel for several-channel outputs
    enum tachy_layout out_layout;
    int out_width, out_height; // 0: taken from the model
    // A cheaper model for mode live when frames miss their deadline: another card's name, "" for
    // none; or this model with these extents, 0 for none.
    const char *smaller;
    int smaller_width, smaller_height;
    int n_decoders;            // 0: the output is a mask, as above
    struct tachy_card_decoder decoder[TACHY_MAX_DECODERS];
    int n_states, n_constants; // 0: every picture for itself; none
    struct tachy_card_state state[TACHY_MAX_STATES];
    int warm_up; // runs of a first picture before the one whose results count, 0..8; only with states
    struct tachy_card_constant constant[TACHY_MAX_CONSTANTS];
    struct tachy_card_text text;
    struct tachy_card_prompts prompts;
    const char *hole; // name of the input that is 1 if a pixel is to be filled, else 0; "": there is none
    float white;      // TACHY_OUT_PICTURE: the number that white is
    struct tachy_card_memory memory;
};

typedef struct tachy_model tachy_model; // a card and the place of its file

#define TACHY_MODEL_AUTO "auto"

struct tachy_model_params {
    const char *name;   // a card's name of the zoo, or the path of an ONNX file. "auto": of the built-in cards for
                        // segment whose models are here the one with the largest input; with `card`: that card's
    const char *card;   // path of a card; required where `name` is a path
    const char *dir;    // model folder; NULL: $TACHY_MODELS, else the user's data folder
    bool fetch;         // get what is missing from the card's sources
    bool accept_licence; // fetch also under a licence that is not permissive
    bool no_verify;     // skip the digest (start-up time); size is checked all the same
    const struct tachy_log *log;
};

// Whether `name` is the path of a model file, not a card's name of the zoo: it has a slash or ends in .onnx.
// `name` may be NULL, which is none.
TACHY_API bool tachy_model_is_path(const char *name);

// Finds (and with `fetch` gets) a model and checks its digest. Errors: TACHY_ERR_NOT_FOUND
// (unknown name: the nearest is named; file missing: the command that gets it is named),
// TACHY_ERR_DIGEST, TACHY_ERR_FORMAT (card), TACHY_ERR_IO, TACHY_ERR_INVAL (also: it would have to be fetched, its
// card names a licence that is not permissive, and `accept_licence` is not set).
TACHY_API int tachy_model_open_sized(size_t p_size, tachy_model **out, const struct tachy_model_params *p);
#define tachy_model_open(...) tachy_model_open_sized(sizeof(struct tachy_model_params), __VA_ARGS__)
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

struct tachy_io; // engine.h

// A card to complete for an ONNX file, as JSON, from what tachy_engine_inputs() and tachy_engine_outputs() say of it. What
// only its maker knows is left open ("" or null): task, meanings, order of colours, normalisation, and sizes that are free.
// Whoever reads such a card gets TACHY_ERR_FORMAT and the question that decides it. Free *json with tachy_free(); it is NULL
// on failure. TACHY_ERR_IO, TACHY_ERR_NOT_FOUND: the file cannot be read.
TACHY_API int tachy_model_skeleton(char **json, const char *onnx_path, const struct tachy_io *in, int nb_in,
                                   const struct tachy_io *out, int nb_out, const struct tachy_log *log);

// SHA-256 of a file as 64 lower-case hex digits and a NUL.
TACHY_API int tachy_sha256_file(const char *path, char hex[65], const struct tachy_log *log);

#ifdef __cplusplus
}
#endif
