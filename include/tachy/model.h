#pragma once
#include <tachy/preprocess.h>

#ifdef __cplusplus
extern "C" {
#endif

// A model card is JSON beside a model: what the model is, where to get it, and its whole contract. docs/models.md
// documents every key.

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

// A value that a recurrent network keeps from picture to picture: the output becomes the input for the next picture of
// the same stream and eye.
struct tachy_card_state {
    const char *input, *output; // names
    float start;                // initial value of every element
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
    TACHY_DECODE_SCORE,      // one number: whether the thing that the other decoders find is there
    TACHY_DECODE_RAW,        // every number, unchanged
};

enum tachy_decoder_scores { TACHY_SCORES_AS_IS = 0, TACHY_SCORES_SIGMOID, TACHY_SCORES_SOFTMAX };

#define TACHY_MAX_DECODERS 8
#define TACHY_MAX_LEVELS 8 // outputs that together form one list of boxes, and strides

struct tachy_card_decoder {
    enum tachy_decoder_kind kind;
    // Names of outputs. Boxes may come in several outputs, one per level, and so may the outputs that belong to them.
    const char *output[TACHY_MAX_LEVELS]; // boxes, or what the other kinds read
    const char *scores[TACHY_MAX_LEVELS]; // SSD, DISTANCES, DETR, CORNERS; POINTS: [0] holds a map per point that moves it, NULL: none
    const char *points[TACHY_MAX_LEVELS]; // SSD, DISTANCES: if they are not in the rows of boxes
    int levels;          // number of outputs in each of these
    const char *classes; // CORNERS: the output of class numbers; "": none
    const char *count;   // CORNERS: the output with the number of boxes; "": all are valid
    int nb_points;       // points per region; 0: none
    int around[2];       // boxes: the region is the square around the first point, turned so that the second lies on
                         // its upper edge; equal: the box itself
    const char *order;   // POINTS: a letter per number of a point: x, y, z, s its score, v a logit of it, - something
                         // else
    const int *at;     // POINTS: the region's points, found by an earlier entry, that these replace; NULL: these are the region's
                       // points
    const int *depth_of; // POINTS with `at`: nb_depth_of points; points that are new to the region get their mean depth
    int nb_depth_of;
    int window;        // POINTS with maps: side of the window around the point, in cells of a map, over which the mean
                       // position is taken; odd
    enum tachy_layout layout; // HEATMAPS
    int nb_strides;           // 0: the kind has no grid
    int stride[TACHY_MAX_LEVELS];   // pixels from cell to cell
    int per_cell[TACHY_MAX_LEVELS]; // SSD, DISTANCES: boxes in a cell
    float scale[4];    // SSD: divisors of the offsets of x, y, w, h
    float anchor[2];   // SSD: extents of an anchor, shares of the picture
    float centre;      // DISTANCES: position of a cell's centre in it, 0..1
    bool exponent;     // SSD: extents are logarithms
    bool yx;           // SSD, CORNERS: y comes before x
    bool objectness;   // YOLO: the fifth number of a row is the objectness
    bool columns;      // YOLO: a box is a column, [4 + classes][boxes]
    bool shares;       // YOLO, POINTS: positions are shares of the picture, not pixels
    int nothing;       // softmax: number of the class that means nothing, counted from the end if negative; INT_MAX:
                       // none
    enum tachy_decoder_scores how;
    float threshold;   // lowest score of a region or class, 0..1
    float overlap;     // intersection over union above which the lower-scored of two boxes is dropped; 1: none is
    bool agnostic;     // boxes of different classes suppress each other too
    bool blend;        // boxes that overlap the best one are averaged with it, weighted by score
    int limit;         // maximum number of regions
    int top;           // CLASSES: maximum number of classes listed
    const char *const *labels; // of classes, nb_labels of them
    int nb_labels;
};

// A network that maps texts to vectors comparable with those of pictures, such as CLIP's. Texts are never NULL.
struct tachy_card_text {
    const char *file;       // its ONNX model; "": the card has none
    const char *vocabulary; // file with the byte-pair merges (docs/categorize.md)
    const char *input;      // name of the input for tokens; "": the only one
    const char *mask;       // name of an input that is 1 for each token up to the end; "": there is none
    const char *output;     // name of the output for the vector; "": the only one
    int tokens;             // per text, 2..1024
    int pad;                // token that fills up after the end
    float scale;            // factor for cosines before softmax
};

// A network that makes masks from an image encoder's outputs and from prompts, such as SAM 2's. Texts are never NULL.
// Its other inputs have the names of the encoder's outputs, or are constants.
struct tachy_card_prompts {
    const char *file;   // its ONNX model; "": the card has none
    const char *points; // input: N x P x 2, pixels of the encoder's picture
    const char *labels; // input: N x P: 0 not part of it, 1 part of it, 2 and 3 a box's corners, -1 no point
    const char *masks;  // output: N x candidates x height x width, logits
    const char *scores; // output: N x candidates, quality of each, 0..1
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
    const char *sha256;    // of that file, 64 hex digits; "" if it is not pinned
    const char *input;     // name of the image input; "" = the only one
    const char *output;    // name of the output; "" = the only one
    const char *foreground; // name of the output with the person's own colours; "": none
    const char *plate;     // name of the input for the scene without people, prepared as `in` says; "": none
    struct tachy_preprocess_params in; // width, height, layout, channels, fit, scale, mean, std
    bool free_batch; // the model takes any number of pictures per run
    enum tachy_output_meaning meaning;
    int channel;           // person channel for several-channel outputs
    enum tachy_layout out_layout;
    int out_width, out_height; // 0: taken from the model
    // A cheaper model for mode live when frames miss their deadline: another card's name, "" for none; or this model
    // with these extents, 0 for none.
    const char *smaller;
    int smaller_width, smaller_height;
    int n_decoders;            // 0: the output is a mask, as above
    struct tachy_card_decoder decoder[TACHY_MAX_DECODERS];
    int n_states, n_constants; // 0: pictures are independent; 0: no constants
    struct tachy_card_state state[TACHY_MAX_STATES];
    int warm_up; // runs of a first picture before the one whose results count, 0..8; only with states
    struct tachy_card_constant constant[TACHY_MAX_CONSTANTS];
    struct tachy_card_text text;
    struct tachy_card_prompts prompts;
    const char *hole; // name of the input that is 1 if a pixel is to be filled, else 0; "": there is none
    float white;      // TACHY_OUT_PICTURE: the number that white is
    struct tachy_card_memory memory;
};

typedef struct tachy_model tachy_model; // a card and the path of its file

#define TACHY_MODEL_AUTO "auto"

struct tachy_model_params {
    const char *name;   // a card's name in the zoo, or the path of an ONNX file. "auto": the built-in card for segment
                        // with the largest input whose model is present; with `card`: that card's model
    const char *card;   // path of a card; required if `name` is a path
    const char *dir;    // model folder; NULL: $TACHY_MODELS, else the user's data folder
    bool fetch;         // download missing files from the card's sources
    bool accept_licence; // also download under a licence that is not permissive
    bool no_verify;     // skip the digest (saves start-up time); the size is still checked
    const struct tachy_log *log;
};

// True if `name` is the path of a model file, not the name of a card in the zoo: it has a slash or ends in .onnx.
// `name` may be NULL: false.
TACHY_API bool tachy_model_is_path(const char *name);

// Finds a model (with `fetch`: downloads it if missing) and checks its digest. Errors: TACHY_ERR_NOT_FOUND (unknown
// name: the log suggests the nearest; missing file: the log gives the command that downloads it), TACHY_ERR_DIGEST,
// TACHY_ERR_FORMAT (card), TACHY_ERR_IO, TACHY_ERR_INVAL (also: a download is needed, the card's licence is not
// permissive, and `accept_licence` is not set).
TACHY_API int tachy_model_open_sized(size_t p_size, tachy_model **out, const struct tachy_model_params *p);
#define tachy_model_open(...) tachy_model_open_sized(sizeof(struct tachy_model_params), __VA_ARGS__)
TACHY_API const struct tachy_card *tachy_model_card(const tachy_model *m); // until close
TACHY_API const char *tachy_model_path(const tachy_model *m);              // until close
TACHY_API void tachy_model_close(tachy_model **m);

// The zoo as JSON: an array of cards, each with "present" and "path". Free with tachy_free(). `dir` may be
// NULL, as in tachy_model_params.
TACHY_API int tachy_model_list(char **json, const char *dir, const struct tachy_log *log);

// Converts a TFLite file to an ONNX file (float32; fp16 weights are widened) and writes a card skeleton to `card_out`.
// *report receives JSON: operators, inputs, outputs, bytes; free with tachy_free(). `card_out` and `report` may be
// NULL: not wanted. TACHY_ERR_FORMAT: the file is damaged; TACHY_ERR_UNSUPPORTED: the log names the operator.
TACHY_API int tachy_model_import(const char *tflite_path, const char *onnx_path,
                                 const char *card_out, char **report, const struct tachy_log *log);

struct tachy_io; // engine.h

// A card skeleton for an ONNX file, as JSON, from tachy_engine_inputs() and tachy_engine_outputs(). Facts that only the
// model's maker knows are left open ("" or null): task, meanings, order of colours, normalisation, and free sizes.
// Loading such a card returns TACHY_ERR_FORMAT and logs the question to answer. Free *json with tachy_free(); it is
// NULL on failure. TACHY_ERR_IO, TACHY_ERR_NOT_FOUND: the file cannot be read.
TACHY_API int tachy_model_skeleton(char **json, const char *onnx_path, const struct tachy_io *in, int nb_in,
                                   const struct tachy_io *out, int nb_out, const struct tachy_log *log);

// SHA-256 of a file as 64 lower-case hex digits and a NUL.
TACHY_API int tachy_sha256_file(const char *path, char hex[65], const struct tachy_log *log);

#ifdef __cplusplus
}
#endif
