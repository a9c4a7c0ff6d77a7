/* Compares .npy files of a device with those of a folder of vectors, in the order of nodes:
 *
 *     cc -o compare c/compare.c
 *     ./compare tensors/0000 DUMP tensors/0000/*.npy
 *
 * compares each tensors/0000/NAME.npy with DUMP/NAME.npy, and ends with 1 at the first that
 * differs. `qpasses bisect` does more: it tells a node that is wrong from one that was given
 * wrong numbers, and by which rule the device rounds.
 */
#include <stdlib.h>

#include "qpasses_vectors.h"

typedef struct {
    qp_type type;
    size_t count;
    void *data;
} array;

static int fail(const char *path, const char *why) {
    fprintf(stderr, "%s: %s\n", path, why);
    return 0;
}

/* The codes of a .npy file of uint8, int8 or int16 in C order; 0 if it is none. */
static int load(const char *path, array *found) {
    unsigned char start[12];
    FILE *file = fopen(path, "rb");
    if (!file) return fail(path, "cannot be opened");
    if (fread(start, 1, 10, file) != 10 || memcmp(start, "\x93NUMPY", 6) != 0) {
        fclose(file);
        return fail(path, "is no .npy file");
    }
    size_t length = start[8] + 256u * start[9];
    if (start[6] > 1) { /* version 2 counts in four bytes */
        if (fread(start + 10, 1, 2, file) != 2) {
            fclose(file);
            return fail(path, "is cut short");
        }
        length += 65536u * start[10];
    }
    char *header = calloc(length + 1, 1);
    if (!header || fread(header, 1, length, file) != length) {
        free(header);
        fclose(file);
        return fail(path, "is cut short");
    }
    size_t width = 1;
    int is_known = 1;
    if (strstr(header, "'|u1'")) found->type = QP_UINT8;
    else if (strstr(header, "'|i1'")) found->type = QP_INT8;
    else if (strstr(header, "'<i2'")) found->type = QP_INT16, width = 2;
    else is_known = 0;
    const char *shape = strchr(header, '(');
    if (!is_known || !shape || !strstr(header, "'fortran_order': False")) {
        free(header);
        fclose(file);
        return fail(path, "holds no uint8, int8 or int16 in C order");
    }
    found->count = 1;
    for (shape++; *shape && *shape != ')';) {
        char *end;
        unsigned long size = strtoul(shape, &end, 10);
        if (end == shape) {
            shape++;
            continue;
        }
        found->count *= size;
        shape = end;
    }
    free(header);
    found->data = malloc(found->count * width + 1);
    int is_whole = found->data && fread(found->data, width, found->count, file) == found->count;
    fclose(file);
    if (is_whole) return 1;
    free(found->data);
    return fail(path, "is cut short");
}

int main(int count, char **arguments) {
    if (count < 4) {
        fprintf(stderr, "usage: compare VECTORS DUMP VECTORS/NAME.npy ...\n");
        return 2;
    }
    size_t prefix = strlen(arguments[1]);
    for (int i = 3; i < count; i++) {
        const char *name = arguments[i];
        array expected, found;
        char place[4096];
        if (strncmp(name, arguments[1], prefix) == 0) name += prefix;
        if (snprintf(place, sizeof place, "%s/%s", arguments[2], name) >= (int)sizeof place) {
            fail(name, "is too long a name");
            return 2;
        }
        if (!load(arguments[i], &expected)) return 2;
        if (!load(place, &found)) {
            free(expected.data);
            return 2;
        }
        long differing = -1;
        if (expected.type != found.type || expected.count != found.count)
            fail(place, "has another type or number of codes");
        else {
            qp_tensor table = {arguments[i], "", expected.type, expected.count, expected.data};
            differing = qp_check(&table, 1, arguments[i], found.data);
        }
        free(expected.data);
        free(found.data);
        if (differing) return differing < 0 ? 2 : 1;
    }
    return 0;
}
