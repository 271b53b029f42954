#pragma once

// C++20: tachy_run(tachy_run_params(.task = task, ...), &summary) as in C. In C these macros take the address of a
// compound literal, which C++ does not have. Here the struct lives until the end of the full expression, so create it
// in the call that uses it, and name the fields in their order. <tachy/tachy.h> includes this header; if you include
// others, include this one last.

#ifdef __cplusplus
#pragma GCC system_header // -Wextra of g++ warns of each field that is left out, wherever the library is installed
#include <tachy/batcher.h>
#include <tachy/compare.h>
#include <tachy/control.h>
#include <tachy/engine.h>
#include <tachy/job.h>
#include <tachy/pipeline.h>
#include <tachy/preprocess.h>
#include <tachy/profile.h>
#include <tachy/replay.h>
#include <tachy/run.h>
#include <tachy/sandbox.h>
#include <tachy/sink.h>
#include <tachy/source.h>

#define TACHY_PARAMS(name, ...) (&static_cast<const name &>(name{__VA_ARGS__}))
#undef tachy_batcher_params
#define tachy_batcher_params(...) TACHY_PARAMS(tachy_batcher_params, __VA_ARGS__)
#undef tachy_submit_params
#define tachy_submit_params(...) TACHY_PARAMS(tachy_submit_params, __VA_ARGS__)
#undef tachy_compare_params
#define tachy_compare_params(...) TACHY_PARAMS(tachy_compare_params, __VA_ARGS__)
#undef tachy_control_params
#define tachy_control_params(...) TACHY_PARAMS(tachy_control_params, __VA_ARGS__)
#undef tachy_engine_params
#define tachy_engine_params(...) TACHY_PARAMS(tachy_engine_params, __VA_ARGS__)
#undef tachy_job_params
#define tachy_job_params(...) TACHY_PARAMS(tachy_job_params, __VA_ARGS__)
#undef tachy_metrics_params
#define tachy_metrics_params(...) TACHY_PARAMS(tachy_metrics_params, __VA_ARGS__)
#undef tachy_pipeline_params
#define tachy_pipeline_params(...) TACHY_PARAMS(tachy_pipeline_params, __VA_ARGS__)
#undef tachy_stream_params
#define tachy_stream_params(...) TACHY_PARAMS(tachy_stream_params, __VA_ARGS__)
#undef tachy_preprocess_params
#define tachy_preprocess_params(...) TACHY_PARAMS(tachy_preprocess_params, __VA_ARGS__)
#undef tachy_profile_params
#define tachy_profile_params(...) TACHY_PARAMS(tachy_profile_params, __VA_ARGS__)
#undef tachy_replay_params
#define tachy_replay_params(...) TACHY_PARAMS(tachy_replay_params, __VA_ARGS__)
#undef tachy_curate_params
#define tachy_curate_params(...) TACHY_PARAMS(tachy_curate_params, __VA_ARGS__)
#undef tachy_curate_merge_params
#define tachy_curate_merge_params(...) TACHY_PARAMS(tachy_curate_merge_params, __VA_ARGS__)
#undef tachy_report_params
#define tachy_report_params(...) TACHY_PARAMS(tachy_report_params, __VA_ARGS__)
#undef tachy_report_compare_params
#define tachy_report_compare_params(...) TACHY_PARAMS(tachy_report_compare_params, __VA_ARGS__)
#undef tachy_run_params
#define tachy_run_params(...) TACHY_PARAMS(tachy_run_params, __VA_ARGS__)
#undef tachy_run_many_params
#define tachy_run_many_params(...) TACHY_PARAMS(tachy_run_many_params, __VA_ARGS__)
#undef tachy_sandbox_params
#define tachy_sandbox_params(...) TACHY_PARAMS(tachy_sandbox_params, __VA_ARGS__)
#undef tachy_sink_params
#define tachy_sink_params(...) TACHY_PARAMS(tachy_sink_params, __VA_ARGS__)
#undef tachy_source_params
#define tachy_source_params(...) TACHY_PARAMS(tachy_source_params, __VA_ARGS__)
#endif
