#include "cuda/nvdec.h"

#include "base/base.h"

const struct tachy_nvdec_kind tachy_nvdec_kinds[] = {
    {CUVID_H264, CUVID_420, 8},  {CUVID_H264, CUVID_420, 10},  {CUVID_HEVC, CUVID_420, 8},
    {CUVID_HEVC, CUVID_420, 10}, {CUVID_HEVC, CUVID_444, 8},   {CUVID_HEVC, CUVID_444, 10},
    {CUVID_VP8, CUVID_420, 8},   {CUVID_VP9, CUVID_420, 8},    {CUVID_VP9, CUVID_420, 10},
    {CUVID_AV1, CUVID_420, 8},   {CUVID_AV1, CUVID_420, 10},   {CUVID_MPEG1, CUVID_420, 8},
    {CUVID_MPEG2, CUVID_420, 8}, {CUVID_MPEG4, CUVID_420, 8},  {CUVID_VC1, CUVID_420, 8},
    {CUVID_JPEG, CUVID_420, 8},  {0, 0, 0},
};

const char *tachy_nvdec_codec_name(int codec)
{
    static const char *const names[] = {
        [CUVID_MPEG1] = "mpeg1video", [CUVID_MPEG2] = "mpeg2video", [CUVID_MPEG4] = "mpeg4",
        [CUVID_VC1] = "vc1",          [CUVID_H264] = "h264",        [CUVID_JPEG] = "mjpeg",
        [CUVID_HEVC] = "hevc",        [CUVID_VP8] = "vp8",          [CUVID_VP9] = "vp9",
        [CUVID_AV1] = "av1",
    };
    return codec >= 0 && codec < (int)TACHY_ARRAY_SIZE(names) ? names[codec] : NULL;
}

int tachy_nvdec_ask(struct tachy_nvdec_caps *out, struct tachy_device *d,
                    const struct tachy_nvdec_kind *kind, const struct tachy_log *log)
{
    const struct tachy_cuvid *cuvid;
    *out = (struct tachy_nvdec_caps){0};
    int err = tachy_cuvid_load(&cuvid, TACHY_LOG_ERR, log);
    if (err == TACHY_OK)
        err = tachy_device_enter(d, log);
    if (err < 0)
        return err;
    struct cuvid_caps caps = {
        .codec = kind->codec, .chroma = kind->chroma, .bits_minus_8 = (unsigned)kind->bits - 8};
    err = tachy_cu_check(d->cu, cuvid->caps(&caps), log, "NVDEC does not say what it decodes");
    tachy_device_leave(d);
    if (err < 0 || !caps.supported)
        return err;
    *out = (struct tachy_nvdec_caps){
        .supported = true,
        .engines = caps.engines,
        .min_width = caps.min_width,
        .min_height = caps.min_height,
        .max_width = (int)caps.max_width,
        .max_height = (int)caps.max_height,
        .max_blocks = caps.max_blocks,
    };
    return TACHY_OK;
}
