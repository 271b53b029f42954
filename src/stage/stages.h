#pragma once
#include "stage/stage.h"

// The stages that every task can use, each in a file of its name. Stages communicate through the item: the decoded
// frame, the result's regions, the output frame.

// After preprocess and model (infer.h): sets the result's regions by the card's `outputs`. Settings: regions.*.
extern const struct tachy_stage_ops tachy_stage_decode, tachy_stage_decode_cuda;
// Faces or people with points and numbers of their own: sets the result's regions. Settings: tracking.*, model.*.
extern const struct tachy_stage_ops tachy_stage_track, tachy_stage_track_cuda;
// After track: its points calmed, left out with --no-smoothing; then named values of its regions, the last to change them.
// They read no picture, so a task on a device has the same ones.
extern const struct tachy_stage_ops tachy_stage_calm, tachy_stage_values;
// After track: how a portrait moves with the first face, then the portrait in place of the frame (animate.h). Settings:
// animation.*.
extern const struct tachy_stage_ops tachy_stage_drive, tachy_stage_animate, tachy_stage_animate_cuda;
// After track: the motion of bodies as BVH files. Settings: pose.bvh.
extern const struct tachy_stage_ops tachy_stage_bvh;
// After animate, on the CPU: the points of its mesh over the picture. Settings: animation.landmarks.
extern const struct tachy_stage_ops tachy_stage_landmarks;
// After that, on the CPU: the driver beside the portrait; left out without animation.side_by_side.
extern const struct tachy_stage_ops tachy_stage_beside;
// Neural stages before animate, which leaves the items that they paint alone: they find the driver's keypoints, relate
// its motion to the portrait, and generate the picture (neural.c). Setting: animation.backend.
extern const struct tachy_stage_ops tachy_stage_keypoints, tachy_stage_relate, tachy_stage_generate;
extern const struct tachy_stage_ops tachy_stage_keypoints_cuda, tachy_stage_generate_cuda; // neural_cuda.c
// Quality of a frame, as named values (measure/quality.h). Settings: quality.*.
extern const struct tachy_stage_ops tachy_stage_quality;
// Lighting of a frame, as named values (measure/light.h); after track, for the faces.
extern const struct tachy_stage_ops tachy_stage_lighting;
// The luma of a frame and that of the one before (pair.h), then what moved between them: numbers of the frame, and a region for
// each thing that moves against the camera. Settings: motion.*.
extern const struct tachy_stage_ops tachy_stage_luma, tachy_stage_pair, tachy_stage_motion;
extern const struct tachy_stage_ops tachy_stage_luma_cuda, tachy_stage_pair_cuda, tachy_stage_motion_cuda;
// After track: vectors of faces, then whose they are. Settings: faces.*.
extern const struct tachy_stage_ops tachy_stage_faces, tachy_stage_faces_cuda, tachy_stage_people;
// After track: how late the sound is against the mouths, as text. Settings: avsync.*.
extern const struct tachy_stage_ops tachy_stage_avsync;
// After decode: the vectors of all frames into a file, then which of some texts describe the picture best. Settings: categorize.*.
extern const struct tachy_stage_ops tachy_stage_embeddings, tachy_stage_categorize;
// Masks of all that a picture shows, or of prompts: regions with masks. The first looks at each picture alone; with
// masks.propagate the others follow what the prompts say through the video. Settings: masks.*.
extern const struct tachy_stage_ops tachy_stage_propose, tachy_stage_features, tachy_stage_propagate;
// The regions as a mask, for a composite (composite.h) that changes what lies in them.
extern const struct tachy_stage_ops tachy_stage_cover;
// Instead of the picture with regions: what their masks cover, in white on black. Settings: masks.white.
extern const struct tachy_stage_ops tachy_stage_white;
// The regions over the picture, unless white has made one. Settings: draw.*; left out where every output is text.
extern const struct tachy_stage_ops tachy_stage_draw, tachy_stage_draw_cuda;
// The regions as text: JSON lines or CSV, as the outputs' names or formats say; left out if no output is text. It reads
// no picture, so tasks on a device use the same stage.
extern const struct tachy_stage_ops tachy_stage_lines;
