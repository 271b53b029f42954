// mask_tool: masks out of and into pipes, for tests that judge them with other programs.
//
//   mask_tool json W H MW MH THRESHOLD     mask MWxMH -> the JSON line of a frame of WxH
//   mask_tool smooth W H STRENGTH          (mask, guide) of WxH each, again and again -> masks
//   mask_tool refine W H MW MH             luma WxH, mask MWxMH -> p (0..255) as WxH: plain,
//                                          then refined
//   mask_tool guide W H MW MH              luma WxH, again and again -> guides of MWxMH
#include "base/base.h"
#include "postprocess/composite.h"

#include <stdio.h>
#include <stdlib.h>

static uint8_t *memory(size_t n)
{
    uint8_t *p = malloc(n);
    if (!p) {
        fprintf(stderr, "mask_tool: out of memory\n");
        exit(1);
    }
    return p;
}

static bool read_all(uint8_t *p, size_t n) { return fread(p, 1, n, stdin) == n; }

static int failed(const char *what)
{
    fprintf(stderr, "mask_tool: %s failed\n", what);
    return 1;
}

static tachy_frame *grey(int w, int h, uint8_t *p)
{
    tachy_frame *f = NULL;
    tachy_frame_new(
        &f, &(struct tachy_frame_params){
                .format = TACHY_PIX_GRAY8, .width = w, .height = h, .data = {p}, .stride = {w}});
    return f;
}

static int json(int w, int h, int mw, int mh, float threshold)
{
    uint8_t *mask = memory((size_t)mw * (size_t)mh), *luma = memory((size_t)w * (size_t)h);
    memset(luma, 0, (size_t)w * (size_t)h);
    tachy_frame *f = grey(w, h, luma);
    tachy_composite *c = NULL;
    const char *line;
    struct tachy_result r = {.eyes = 1, .mask[0] = {mask, mw, mh, mw, {0, 0, w, h}}};
    struct tachy_composite_params p = {.mode = TACHY_MODE_JSON, .threshold = threshold};
    bool ok = f && read_all(mask, (size_t)mw * (size_t)mh) &&
              tachy_composite_open(&c, &p) == TACHY_OK &&
              tachy_composite_json(c, f, &r, NULL, 0, &line) == TACHY_OK;
    if (ok)
        puts(line);
    tachy_composite_close(&c);
    tachy_frame_unref(&f);
    free(mask), free(luma);
    return ok ? 0 : failed("json");
}

static int smooth(int w, int h, float strength)
{
    size_t n = (size_t)w * (size_t)h;
    uint8_t *mask = memory(n), *guide = memory(n);
    tachy_smooth *s;
    if (tachy_smooth_open(&s, w, h, strength) < 0)
        return failed("smooth");
    while (read_all(mask, n) && read_all(guide, n)) {
        tachy_smooth_apply(s, mask, w, guide, w, false);
        fwrite(mask, 1, n, stdout);
    }
    tachy_smooth_close(&s);
    free(mask), free(guide);
    return 0;
}

static int refine(int w, int h, int mw, int mh)
{
    size_t n = (size_t)w * (size_t)h, m = (size_t)mw * (size_t)mh;
    uint8_t *luma = memory(n), *out = memory(n), *mask = memory(m), *guide = memory(m);
    uint8_t *a = memory(4 * m), *b = memory(4 * m), *scratch = memory(tachy_refine_scratch(mw, mh));
    tachy_frame *f = grey(w, h, luma);
    tachy_composite *c = NULL;
    struct tachy_refine fit = {.a = (float *)(void *)a, .b = (float *)(void *)b, .width = mw, .height = mh};
    struct tachy_rect all = {0, 0, w, h};
    struct tachy_result r = {.eyes = 1, .mask[0] = {mask, mw, mh, mw, all}};
    struct tachy_composite_params p = {.mode = TACHY_MODE_MASK, .threshold = 0.5f, .feather = 1};
    uint8_t *planes[4] = {out};
    ptrdiff_t strides[4] = {w};
    bool ok = f && read_all(luma, n) && read_all(mask, m) &&
              tachy_composite_open(&c, &p) == TACHY_OK &&
              tachy_luma_guide(f, &all, guide, mw, mw, mh) == TACHY_OK;
    if (ok)
        tachy_refine_fit(&fit, mask, mw, guide, mw, scratch);
    for (int k = 0; ok && k < 2; k++) {
        ok = tachy_composite_planes(c, f, &r, k ? &fit : NULL, NULL, planes, strides) == TACHY_OK;
        fwrite(out, 1, n, stdout);
    }
    tachy_composite_close(&c);
    tachy_frame_unref(&f);
    free(luma), free(out), free(mask), free(guide), free(a), free(b), free(scratch);
    return ok ? 0 : failed("refine");
}

static int guides(int w, int h, int mw, int mh)
{
    size_t n = (size_t)w * (size_t)h, m = (size_t)mw * (size_t)mh;
    uint8_t *luma = memory(n), *guide = memory(m);
    tachy_frame *f = grey(w, h, luma);
    struct tachy_rect all = {0, 0, w, h};
    while (f && read_all(luma, n) && tachy_luma_guide(f, &all, guide, mw, mw, mh) == TACHY_OK)
        fwrite(guide, 1, m, stdout);
    tachy_frame_unref(&f);
    free(luma), free(guide);
    return 0;
}

int main(int argc, char **argv)
{
    double v[5] = {0};
    for (int i = 2; i < argc && i < 7; i++)
        v[i - 2] = strtod(argv[i], NULL);
    int w = (int)v[0], h = (int)v[1], mw = (int)v[2], mh = (int)v[3];
    if (argc == 7 && !strcmp(argv[1], "json"))
        return json(w, h, mw, mh, (float)v[4]);
    if (argc == 5 && !strcmp(argv[1], "smooth"))
        return smooth(w, h, (float)v[2]);
    if (argc == 6 && !strcmp(argv[1], "refine"))
        return refine(w, h, mw, mh);
    if (argc == 6 && !strcmp(argv[1], "guide"))
        return guides(w, h, mw, mh);
    fprintf(stderr, "mask_tool: json, smooth, refine or guide; see mask_tool.c\n");
    return 2;
}
