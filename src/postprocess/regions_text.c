#include "postprocess/text.h"

#include "postprocess/buf.h"

#include <inttypes.h>
#include <math.h>

// ---- JSON

// Writes `"name":[a,b,c]` after a comma.
static void add_numbers(struct tachy_text *t, const char *name, const float *v, int n)
{
    tachy_text_add(t, ",\"%s\":[", name);
    for (int i = 0; i < n; i++) {
        if (i)
            tachy_text_char(t, ',');
        tachy_text_number(t, v[i]);
    }
    tachy_text_char(t, ']');
}

static void add_points(struct tachy_text *t, const struct tachy_region *r)
{
    tachy_text_add(t, ",\"points\":[");
    for (int i = 0; i < r->nb_points; i++) {
        const float v[4] = {r->points[i].x, r->points[i].y, r->points[i].z, r->points[i].score};
        if (i)
            tachy_text_char(t, ',');
        tachy_text_char(t, '[');
        for (int k = 0; k < 4; k++) {
            if (k)
                tachy_text_char(t, ',');
            tachy_text_number(t, v[k]);
        }
        tachy_text_char(t, ']');
    }
    tachy_text_char(t, ']');
}

void tachy_values_json(struct tachy_text *t, const struct tachy_named v[], int n)
{
    for (int i = 0; i < n; i++) {
        tachy_text_add(t, i ? "," : ",\"values\":{");
        tachy_text_string(t, v[i].name);
        tachy_text_char(t, ':');
        tachy_text_number(t, (float)v[i].value);
    }
    if (n)
        tachy_text_char(t, '}');
}

// A mask of the frame's own pixels, as COCO has it: run lengths in the whole frame.
static void add_mask(struct tachy_text *t, const tachy_frame *head, const struct tachy_mask *m)
{
    const struct tachy_bits bits = {(uint8_t *)(uintptr_t)m->data, m->stride, m->width, m->height};
    const struct tachy_rect within = {m->region.x, m->region.y, head->width, head->height};
    struct tachy_buf runs = {0};
    tachy_text_add(t, ",\"segmentation\":{\"size\":[%d,%d],\"counts\":\"", head->height, head->width);
    t->failed |= tachy_rle(t, &bits, &within, &runs) < 0;
    tachy_text_add(t, "\"}");
    tachy_buf_free(&runs);
}

static void add_region(struct tachy_text *t, const tachy_frame *head, const struct tachy_region *r)
{
    const float box[4] = {(float)r->x, (float)r->y, (float)r->w, (float)r->h};
    tachy_text_add(t, "{\"score\":");
    tachy_text_number(t, r->score);
    if (r->track >= 0)
        tachy_text_add(t, ",\"track\":%" PRId64, r->track);
    if (r->class_id >= 0)
        tachy_text_add(t, ",\"class\":%d", r->class_id);
    if (r->label) {
        tachy_text_add(t, ",\"label\":");
        tachy_text_string(t, r->label);
    }
    add_numbers(t, "box", box, 4);
    if (r->angle != 0) {
        tachy_text_add(t, ",\"angle\":");
        tachy_text_number(t, (float)r->angle);
    }
    if (r->nb_points)
        add_points(t, r);
    tachy_values_json(t, r->values, r->nb_values);
    if (r->nb_embedding)
        add_numbers(t, "embedding", r->embedding, r->nb_embedding);
    if (r->mask.data && r->mask.width == r->mask.region.w && r->mask.height == r->mask.region.h)
        add_mask(t, head, &r->mask);
    tachy_text_char(t, '}');
}

void tachy_regions_json(struct tachy_text *t, const tachy_frame *head, const struct tachy_result *r, double time_s)
{
    tachy_text_add(t, "{\"frame\":%" PRId64 ",\"pts\":%" PRId64 ",\"time\":", head->id, head->pts);
    if (isfinite(time_s))
        tachy_text_add(t, "%.6f", time_s);
    else
        tachy_text_add(t, "null");
    tachy_text_add(t, ",\"width\":%d,\"height\":%d", head->width, head->height);
    tachy_values_json(t, r->values, r->nb_values);
    tachy_text_add(t, ",\"regions\":[");
    for (int i = 0; i < r->nb_regions; i++) {
        if (i)
            tachy_text_char(t, ',');
        add_region(t, head, &r->regions[i]);
    }
    tachy_text_add(t, "]}");
}

// ---- CSV (RFC 4180)

const char tachy_regions_csv_columns[] = "frame,time,region,track,class,label,score,x,y,w,h,angle,points\n";

// In quotes, which are doubled inside.
static void add_cell(struct tachy_text *t, const char *s)
{
    tachy_text_char(t, '"');
    for (; s && *s; s++) {
        if (*s == '"')
            tachy_text_char(t, '"');
        tachy_text_char(t, *s);
    }
    tachy_text_char(t, '"');
}

static void add_row(struct tachy_text *t, const struct tachy_region *r)
{
    const double box[6] = {(double)r->score, r->x, r->y, r->w, r->h, r->angle};
    if (r->track >= 0)
        tachy_text_add(t, "%" PRId64, r->track);
    tachy_text_char(t, ',');
    if (r->class_id >= 0)
        tachy_text_add(t, "%d", r->class_id);
    tachy_text_char(t, ',');
    if (r->label)
        add_cell(t, r->label);
    for (int i = 0; i < 6; i++) {
        tachy_text_char(t, ',');
        tachy_text_number(t, (float)box[i]);
    }
    tachy_text_char(t, ',');
    for (int i = 0; i < r->nb_points; i++) { // "x y x y"
        if (i)
            tachy_text_char(t, ' ');
        tachy_text_number(t, r->points[i].x);
        tachy_text_char(t, ' ');
        tachy_text_number(t, r->points[i].y);
    }
    tachy_text_char(t, '\n');
}

void tachy_regions_csv(struct tachy_text *t, const tachy_frame *head, const struct tachy_region *regions, int nb,
                       double time_s)
{
    for (int i = 0; i < nb; i++) {
        tachy_text_add(t, "%" PRId64 ",", head->id);
        if (isfinite(time_s))
            tachy_text_add(t, "%.6f", time_s);
        tachy_text_add(t, ",%d,", i);
        add_row(t, &regions[i]);
    }
}

void tachy_values_csv_columns(struct tachy_text *t, const struct tachy_named v[], int n)
{
    tachy_text_add(t, "frame,time");
    for (int i = 0; i < n; i++)
        tachy_text_add(t, ",%s", v[i].name);
    tachy_text_char(t, '\n');
}

void tachy_values_csv(struct tachy_text *t, const tachy_frame *head, const struct tachy_named v[], int n, double time_s)
{
    tachy_text_add(t, "%" PRId64 ",", head->id);
    if (isfinite(time_s))
        tachy_text_add(t, "%.6f", time_s);
    for (int i = 0; i < n; i++) {
        tachy_text_char(t, ',');
        if (isfinite(v[i].value))
            tachy_text_number(t, (float)v[i].value);
    }
    tachy_text_char(t, '\n');
}
