#include "stage/track.h"

// Differences between faces and people.

// Numbers of a body's points.
enum {
    NOSE, L_EYE_INNER, L_EYE, L_EYE_OUTER, R_EYE_INNER, R_EYE, R_EYE_OUTER, L_EAR, R_EAR, L_MOUTH, R_MOUTH, L_SHOULDER, R_SHOULDER,
    L_ELBOW, R_ELBOW, L_WRIST, R_WRIST, L_PINKY, R_PINKY, L_INDEX, R_INDEX, L_THUMB, R_THUMB, L_HIP, R_HIP, L_KNEE, R_KNEE,
    L_ANKLE, R_ANKLE, L_HEEL, R_HEEL, L_TOES, R_TOES,
    BODY,                // points of a body
    CENTRE = BODY, REACH // between the hips, and above it as far as the body goes
};

static const char *const body_names[BODY] = {
    "nose", "left_eye_inner", "left_eye", "left_eye_outer", "right_eye_inner", "right_eye", "right_eye_outer", "left_ear", "right_ear",
    "mouth_left", "mouth_right", "left_shoulder", "right_shoulder", "left_elbow", "right_elbow", "left_wrist", "right_wrist",
    "left_pinky", "right_pinky", "left_index", "right_index", "left_thumb", "right_thumb", "left_hip", "right_hip", "left_knee",
    "right_knee", "left_ankle", "right_ankle", "left_heel", "right_heel", "left_foot_index", "right_foot_index",
};

static const struct track_angle body_angles[] = {
    {"left_shoulder", L_HIP, L_SHOULDER, L_ELBOW},  {"right_shoulder", R_HIP, R_SHOULDER, R_ELBOW},
    {"left_elbow", L_SHOULDER, L_ELBOW, L_WRIST},   {"right_elbow", R_SHOULDER, R_ELBOW, R_WRIST},
    {"left_wrist", L_ELBOW, L_WRIST, L_INDEX},      {"right_wrist", R_ELBOW, R_WRIST, R_INDEX},
    {"left_hip", L_SHOULDER, L_HIP, L_KNEE},        {"right_hip", R_SHOULDER, R_HIP, R_KNEE},
    {"left_knee", L_HIP, L_KNEE, L_ANKLE},          {"right_knee", R_HIP, R_KNEE, R_ANKLE},
    {"left_ankle", L_KNEE, L_ANKLE, L_TOES},        {"right_ankle", R_KNEE, R_ANKLE, R_TOES},
};

static const uint8_t body_bones[][2] = {
    {L_SHOULDER, R_SHOULDER}, {L_SHOULDER, L_ELBOW}, {L_ELBOW, L_WRIST}, {R_SHOULDER, R_ELBOW}, {R_ELBOW, R_WRIST},
    {L_WRIST, L_PINKY}, {L_WRIST, L_INDEX}, {L_WRIST, L_THUMB}, {R_WRIST, R_PINKY}, {R_WRIST, R_INDEX}, {R_WRIST, R_THUMB},
    {L_SHOULDER, L_HIP}, {R_SHOULDER, R_HIP}, {L_HIP, R_HIP}, {L_HIP, L_KNEE}, {L_KNEE, L_ANKLE}, {R_HIP, R_KNEE},
    {R_KNEE, R_ANKLE}, {L_ANKLE, L_HEEL}, {L_HEEL, L_TOES}, {R_ANKLE, R_HEEL}, {R_HEEL, R_TOES},
    {NOSE, L_EYE}, {L_EYE, L_EAR}, {NOSE, R_EYE}, {R_EYE, R_EAR}, {L_MOUTH, R_MOUTH},
};

// Numbers of a body's points if there are 17, in COCO's order.
enum {
    C_NOSE, C_L_EYE, C_R_EYE, C_L_EAR, C_R_EAR, C_L_SHOULDER, C_R_SHOULDER, C_L_ELBOW, C_R_ELBOW, C_L_WRIST, C_R_WRIST,
    C_L_HIP, C_R_HIP, C_L_KNEE, C_R_KNEE, C_L_ANKLE, C_R_ANKLE, COCO
};

static const char *const coco_names[COCO] = {
    "nose", "left_eye", "right_eye", "left_ear", "right_ear", "left_shoulder", "right_shoulder", "left_elbow", "right_elbow",
    "left_wrist", "right_wrist", "left_hip", "right_hip", "left_knee", "right_knee", "left_ankle", "right_ankle",
};

static const struct track_angle coco_angles[] = {
    {"left_shoulder", C_L_HIP, C_L_SHOULDER, C_L_ELBOW}, {"right_shoulder", C_R_HIP, C_R_SHOULDER, C_R_ELBOW},
    {"left_elbow", C_L_SHOULDER, C_L_ELBOW, C_L_WRIST},  {"right_elbow", C_R_SHOULDER, C_R_ELBOW, C_R_WRIST},
    {"left_hip", C_L_SHOULDER, C_L_HIP, C_L_KNEE},       {"right_hip", C_R_SHOULDER, C_R_HIP, C_R_KNEE},
    {"left_knee", C_L_HIP, C_L_KNEE, C_L_ANKLE},         {"right_knee", C_R_HIP, C_R_KNEE, C_R_ANKLE},
};

static const uint8_t coco_bones[][2] = {
    {C_L_SHOULDER, C_R_SHOULDER}, {C_L_SHOULDER, C_L_ELBOW}, {C_L_ELBOW, C_L_WRIST}, {C_R_SHOULDER, C_R_ELBOW},
    {C_R_ELBOW, C_R_WRIST}, {C_L_SHOULDER, C_L_HIP}, {C_R_SHOULDER, C_R_HIP}, {C_L_HIP, C_R_HIP}, {C_L_HIP, C_L_KNEE},
    {C_L_KNEE, C_L_ANKLE}, {C_R_HIP, C_R_KNEE}, {C_R_KNEE, C_R_ANKLE}, {C_NOSE, C_L_EYE}, {C_L_EYE, C_L_EAR},
    {C_NOSE, C_R_EYE}, {C_R_EYE, C_R_EAR},
};

const struct track_kind track_kinds[] = {
    // The line from eye to eye is horizontal in a face's crop, which has room for the whole head. Numbers of the eyes: of
    // the detector's six points, and the outer corners among the mesh's 468.
    {.task = "track", .also = "animate|lighting|faces|avsync", .things = "faces",
     .detected = {.from = 0, .to = 1, .scale_x = 1.5, .scale_y = 1.5, .square = true},
     .followed = {.from = 33, .to = 263, .scale_x = 1.5, .scale_y = 1.5, .square = true},
     .signs = true},
    // A person's crop is the square around the hips that the body fits in whatever its limbs do. The detector says it as its
    // region.
    {.task = "pose", .things = "people",
     .detected = {.scale_x = 1.25, .scale_y = 1.25},
     .followed = {.from = CENTRE, .to = REACH, .angle = -90, .around = true, .scale_x = 1.25, .scale_y = 1.25},
     .told = BODY, .name = body_names, .nb_names = BODY, .angle = body_angles, .nb_angles = TACHY_ARRAY_SIZE(body_angles),
     .bones = {body_bones, TACHY_ARRAY_SIZE(body_bones)}},
    // MoveNet and similar networks find an upright person in a square with room around; only the points tell where the
    // next crop is. Points out of sight have low scores, so a half-visible person has a low mean.
    {.task = "pose", .things = "people", .points = COCO, .threshold = 0.25f,
     .detected = {.scale_x = 1.25, .scale_y = 1.25},
     .followed = {.square = true, .scale_x = 1.5, .scale_y = 1.5},
     .name = coco_names, .nb_names = COCO, .angle = coco_angles, .nb_angles = TACHY_ARRAY_SIZE(coco_angles),
     .bones = {coco_bones, TACHY_ARRAY_SIZE(coco_bones)}},
    {0},
};

const struct track_kind *track_kind_named(const char *task, size_t points)
{
    const struct track_kind *k = track_kinds;
    while (k->task && (strcmp(k->task, task) != 0 || !k->name || (size_t)k->nb_names != points))
        k++;
    return k->task ? k : NULL;
}
