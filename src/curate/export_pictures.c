#include "curate/export.h"
#include "stage/track.h"

#include <errno.h>
#include <stdlib.h>

// Forms with a picture for each frame: COCO, YOLO, a folder per class, captions. Pictures are in images/.

struct pictures {
    const struct curate_export *x;
    json_t *classes;              // "task: label" -> number
    json_t *images, *annotations, *categories; // of COCO
};

static int open_pictures(const struct curate_export *x, void **priv)
{
    struct pictures *p = *priv = calloc(1, sizeof(*p));
    if (!p)
        return TACHY_ERR_NOMEM;
    p->x = x;
    p->classes = json_object();
    p->images = json_array();
    p->annotations = json_array();
    p->categories = json_array();
    return TACHY_OK;
}

static void close_pictures(struct pictures *p)
{
    json_decref(p->classes);
    json_decref(p->images);
    json_decref(p->annotations);
    json_decref(p->categories);
    free(p);
}

// The number of a region's class, from 0, in the order in which classes come. The task's name stands for one without label.
static int class_of(struct pictures *p, const char *task, const json_t *r)
{
    const char *label = json_string_value(json_object_get(r, "label"));
    label = label ? label : task;
    json_t *known = json_object_get(p->classes, label);
    if (known)
        return (int)json_integer_value(known);
    int n = (int)json_object_size(p->classes);
    json_object_set_new(p->classes, label, json_integer(n));
    return n;
}

static const char *picture_of(const json_t *frame) { return json_string_value(json_object_get(frame, "picture")); }

// "DIR/labels/NAME.txt" for "images/NAME.jpg".
static char *beside(const struct pictures *p, const char *folder, const char *picture)
{
    const char *name = strrchr(picture, '/') + 1, *dot = strrchr(name, '.');
    return tachy_asprintf("%s/%s/%.*s.txt", p->x->dir, folder, dot ? (int)(dot - name) : (int)strlen(name), name);
}

static int write_text(const struct pictures *p, char *path, struct tachy_text *t)
{
    int err = !path || t->failed ? TACHY_ERR_NOMEM : tachy_write_file(path, t->p ? t->p : "", t->len, p->x->log);
    free(path);
    tachy_text_free(t);
    return err;
}

static int make_folder(const struct pictures *p, const char *name)
{
    char *path = tachy_asprintf("%s/%s", p->x->dir, name);
    int err = path ? tachy_make_folders(path, p->x->log) : TACHY_ERR_NOMEM;
    free(path);
    return err;
}

// ---- COCO

static json_t *key_points(const json_t *r)
{
    json_t *all = json_array(), *point;
    size_t i;
    json_array_foreach(json_object_get(r, "points"), i, point) {
        double score = json_number_value(json_array_get(point, 3));
        json_array_append_new(all, json_real(json_number_value(json_array_get(point, 0))));
        json_array_append_new(all, json_real(json_number_value(json_array_get(point, 1))));
        json_array_append_new(all, json_integer(score >= 0.5 ? 2 : 1)); // visible, or labelled but not visible
    }
    return all;
}

// Names of a category's key points, and the pairs that a line joins, counted from 1.
static void name_points(json_t *category, const struct track_kind *kind)
{
    json_t *names = json_array(), *bones = json_array();
    for (int i = 0; i < kind->nb_names; i++)
        json_array_append_new(names, json_string(kind->name[i]));
    for (int i = 0; i < kind->bones.nb; i++)
        json_array_append_new(bones, json_pack("[i,i]", kind->bones.ends[i][0] + 1, kind->bones.ends[i][1] + 1));
    json_object_set_new(category, "keypoints", names);
    json_object_set_new(category, "skeleton", bones);
}

// The number of a region's category, from 1.
static json_int_t category_of(struct pictures *p, const char *task, const json_t *r)
{
    int n = class_of(p, task, r);
    const struct track_kind *kind = track_kind_named(task, json_array_size(json_object_get(r, "points")));
    if (n == (int)json_array_size(p->categories)) // a new one
        json_array_append_new(p->categories, json_pack("{s:i}", "id", n + 1));
    json_t *category = json_array_get(p->categories, (size_t)n);
    if (kind && !json_object_get(category, "keypoints"))
        name_points(category, kind);
    return n + 1;
}

static void add_annotation(struct pictures *p, json_int_t image, const char *task, const json_t *r)
{
    double b[4];
    curate_box(r, b);
    json_t *a = json_pack("{s:I, s:I, s:I, s:[f,f,f,f], s:f, s:i, s:f}", "id", (json_int_t)json_array_size(p->annotations) + 1, "image_id",
                          image, "category_id", category_of(p, task, r), "bbox", b[0], b[1], b[2], b[3], "area", b[2] * b[3], "iscrowd", 0,
                          "score", json_number_value(json_object_get(r, "score")));
    size_t points = json_array_size(json_object_get(r, "points"));
    json_object_set_new(a, "task", json_string(task));
    if (json_object_get(r, "track"))
        json_object_set(a, "track_id", json_object_get(r, "track"));
    bool masked = json_object_get(r, "segmentation");
    if (masked) {
        json_object_set(a, "segmentation", json_object_get(r, "segmentation"));
        json_object_set(a, "area", json_object_get(json_object_get(r, "values"), "area"));
    }
    if (points && !masked) { // of a mask they are what was asked for
        json_object_set_new(a, "keypoints", key_points(r));
        json_object_set_new(a, "num_keypoints", json_integer((json_int_t)points));
    }
    json_array_append_new(p->annotations, a);
}

static int coco_frame(void *priv, json_t *frame)
{
    struct pictures *p = priv;
    const char *task, *name = picture_of(frame);
    json_t *v, *r;
    size_t i;
    json_int_t id = (json_int_t)json_array_size(p->images) + 1;
    json_array_append_new(p->images, json_pack("{s:I, s:s, s:O, s:O, s:O, s:O}", "id", id, "file_name", name ? strrchr(name, '/') + 1 : "",
                                               "width", json_object_get(frame, "width"), "height", json_object_get(frame, "height"),
                                               "source", json_object_get(frame, "file"), "frame", json_object_get(frame, "frame")));
    json_object_foreach(p->x->tasks, task, v)
        json_array_foreach(curate_regions(frame, task), i, r)
            add_annotation(p, id, task, r);
    return TACHY_OK;
}

static int coco_close(void *priv, bool ok)
{
    struct pictures *p = priv;
    const char *name;
    json_t *v;
    json_object_foreach(p->classes, name, v)
        json_object_set_new(json_array_get(p->categories, (size_t)json_integer_value(v)), "name", json_string(name));
    json_t *all = json_pack("{s:{s:s}, s:O, s:O, s:O}", "info", "description", "tachy curate", "images", p->images, "annotations",
                            p->annotations, "categories", p->categories);
    char *text = ok && all ? json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL, *path = tachy_asprintf("%s/coco.json", p->x->dir);
    int err = !ok ? TACHY_OK : text && path ? tachy_write_file(path, text, strlen(text), p->x->log) : TACHY_ERR_NOMEM;
    json_decref(all);
    free(text);
    free(path);
    close_pictures(p);
    return err;
}

const struct curate_format curate_coco = {.name = "coco", .pictures = true, .open = open_pictures, .frame = coco_frame, .close = coco_close};

// ---- YOLO: labels/NAME.txt next to images/NAME.jpg, and data.yaml

static int yolo_open(const struct curate_export *x, void **priv)
{
    int err = open_pictures(x, priv);
    if (err == TACHY_OK && (err = make_folder(*priv, "labels")) < 0)
        close_pictures(*priv);
    return err;
}

static int yolo_frame(void *priv, json_t *frame)
{
    struct pictures *p = priv;
    struct tachy_text t = {0};
    const char *task;
    json_t *v, *r;
    size_t i;
    double width = json_number_value(json_object_get(frame, "width")), height = json_number_value(json_object_get(frame, "height")), b[4];
    if (!picture_of(frame))
        return TACHY_OK;
    json_object_foreach(p->x->tasks, task, v)
        json_array_foreach(curate_regions(frame, task), i, r) {
            curate_box(r, b);
            double x0 = TACHY_CLAMP(b[0], 0, width), y0 = TACHY_CLAMP(b[1], 0, height);
            double x1 = TACHY_CLAMP(b[0] + b[2], 0, width), y1 = TACHY_CLAMP(b[1] + b[3], 0, height);
            if (x1 > x0 && y1 > y0)
                tachy_text_add(&t, "%d %.6f %.6f %.6f %.6f\n", class_of(p, task, r), (x0 + x1) / 2 / width, (y0 + y1) / 2 / height,
                               (x1 - x0) / width, (y1 - y0) / height);
        }
    return write_text(p, beside(p, "labels", picture_of(frame)), &t);
}

static int yolo_close(void *priv, bool ok)
{
    struct pictures *p = priv;
    struct tachy_text t = {0};
    const char *name;
    json_t *v;
    tachy_text_add(&t, "path: .\ntrain: images\nval: images\nnames:\n");
    json_object_foreach(p->classes, name, v) {
        tachy_text_add(&t, "  %d: ", (int)json_integer_value(v));
        tachy_text_string(&t, name);
        tachy_text_char(&t, '\n');
    }
    int err = TACHY_OK;
    if (ok)
        err = write_text(p, tachy_asprintf("%s/data.yaml", p->x->dir), &t);
    else
        tachy_text_free(&t);
    close_pictures(p);
    return err;
}

const struct curate_format curate_yolo = {.name = "yolo", .pictures = true, .open = yolo_open, .frame = yolo_frame, .close = yolo_close};

// ---- A folder per class: folders/TASK/LABEL/NAME.jpg, by the best region of each task

static int place(const struct pictures *p, const char *task, const char *label, const char *picture)
{
    char safe[128], *folder, *from, *to;
    size_t n = 0;
    for (; label[n] && n + 1 < sizeof(safe); n++)
        safe[n] = label[n] == '/' || (label[n] == '.' && !n) || (unsigned char)label[n] < ' ' ? '_' : label[n];
    safe[n] = '\0';
    folder = tachy_asprintf("%s/folders/%s/%s", p->x->dir, task, safe);
    from = tachy_asprintf("%s/%s", p->x->dir, picture);
    to = folder ? tachy_asprintf("%s/%s", folder, strrchr(picture, '/') + 1) : NULL;
    int err = folder && from && to ? tachy_make_folders(folder, p->x->log) : TACHY_ERR_NOMEM;
    if (err == TACHY_OK)
        err = curate_place_file(from, to, p->x->log);
    free(folder);
    free(from);
    free(to);
    return err;
}

static int folders_frame(void *priv, json_t *frame)
{
    struct pictures *p = priv;
    const char *task, *picture = picture_of(frame);
    json_t *v;
    int err = TACHY_OK;
    json_object_foreach(p->x->tasks, task, v) {
        const json_t *best = curate_best(curate_regions(frame, task));
        const char *label = json_string_value(json_object_get(best, "label"));
        if (picture && err == TACHY_OK && curate_regions(frame, task))
            err = place(p, task, !best ? "none" : label ? label : task, picture);
    }
    return err;
}

static int folders_close(void *priv, bool ok)
{
    close_pictures(priv);
    return TACHY_OK;
}

const struct curate_format curate_folders = {.name = "folders", .pictures = true, .open = open_pictures, .frame = folders_frame,
                                             .close = folders_close};

// ---- Captions: images/NAME.txt with the labels of what was found, each once

static int captions_frame(void *priv, json_t *frame)
{
    struct pictures *p = priv;
    struct tachy_text t = {0};
    json_t *said = json_object(), *v, *r;
    const char *task;
    size_t i;
    if (!picture_of(frame)) {
        json_decref(said);
        return TACHY_OK;
    }
    json_object_foreach(p->x->tasks, task, v)
        json_array_foreach(curate_regions(frame, task), i, r) {
            const char *label = json_string_value(json_object_get(r, "label"));
            if (!label || json_object_get(said, label))
                continue;
            if (t.len)
                tachy_text_add(&t, ", ");
            tachy_text_put(&t, label, strlen(label));
            json_object_set_new(said, label, json_true());
        }
    json_decref(said);
    return write_text(p, beside(p, "images", picture_of(frame)), &t);
}

const struct curate_format curate_captions = {.name = "captions", .pictures = true, .open = open_pictures, .frame = captions_frame,
                                              .close = folders_close};
