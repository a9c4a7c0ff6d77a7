/* Compares .npy files of a device with those of a folder of vectors, in the order of nodes:
 *
 *     cc -o compare c/compare.c
 *     ./compare tensors/0000 DUMP `ls tensors/0000`
 *
 * compares each tensors/0000/NAME with DUMP/NAME, and ends with 1 at the first that
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

static int join(char *place, size_t size, const char *folder, const char *name) {
    int length = snprintf(place, size, "%s/%s", folder, name);
    return length > 0 && (size_t)length < size ? 1 : fail(name, "is too long a name");
}

/* 0 if the files called `name` in both folders are equal, 1 if not, 2 if they cannot be compared. */
static int compare(const char *vectors, const char *dump, const char *name) {
    char known[4096], given[4096];
    array expected, found;
    if (!join(known, sizeof known, vectors, name) || !join(given, sizeof given, dump, name))
        return 2;
    if (!load(known, &expected)) return 2;
    if (!load(given, &found)) {
        free(expected.data);
        return 2;
    }
    int result = 2;
    if (expected.type != found.type || expected.count != found.count)
        fail(given, "has another type or number of codes");
    else {
        qp_tensor tensor = {name, "", expected.type, expected.count, expected.data};
        result = qp_check(&tensor, 1, name, found.data) != 0;
    }
    free(expected.data);
    free(found.data);
    return result;
}

int main(int count, char **arguments) {
    if (count < 4) {
        fprintf(stderr, "usage: compare VECTORS DUMP NAME.npy ...\n");
        return 2;
    }
    for (int i = 3; i < count; i++) {
        int result = compare(arguments[1], arguments[2], arguments[i]);
        if (result) return result;
    }
    return 0;
}
