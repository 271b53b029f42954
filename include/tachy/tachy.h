#pragma once
// Everything at once.
#include <tachy/batcher.h>
#include <tachy/common.h>
#include <tachy/doctor.h>
#include <tachy/engine.h>
#include <tachy/frame.h>
#include <tachy/model.h>
#include <tachy/pipeline.h>
#include <tachy/preprocess.h>
#include <tachy/profile.h>
#include <tachy/result.h>
#include <tachy/run.h>
#include <tachy/settings.h>
#include <tachy/sink.h>
#include <tachy/source.h>
#include <tachy/task.h>
#include <tachy/tensor.h>
