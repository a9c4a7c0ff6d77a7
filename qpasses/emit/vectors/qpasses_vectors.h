/* Test vectors of qpasses: stored integers that a device is compared with.
 *
 * One header for each sample, c/0000.h and so on, has the table qp_s0000_tensors of them, in the
 * order in which nodes write them:
 *
 *     #include "0000.h"
 *     qp_check(qp_s0000_tensors, QP_COUNT(qp_s0000_tensors), "conv1_quantized", my_buffer);
 *
 * compares what a device holds of a tensor, its axes in ONNX's order, says what differs, and
 * gives how many codes do. C99; nothing is allocated.
 */
#ifndef QPASSES_VECTORS_H
#define QPASSES_VECTORS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef enum { QP_UINT8, QP_INT8, QP_INT16 } qp_type;

typedef struct {
    const char *tensor; /* its name in the model */
    const char *node;   /* who writes it, "" of an input */
    qp_type type;
    size_t count;     /* of its codes */
    const void *data; /* in ONNX's order of axes, the last one fastest */
} qp_tensor;

#define QP_COUNT(table) (sizeof(table) / sizeof((table)[0]))

static inline int32_t qp_code(qp_type type, const void *data, size_t place) {
    switch (type) {
    case QP_UINT8: return ((const uint8_t *)data)[place];
    case QP_INT8: return ((const int8_t *)data)[place];
    default: return ((const int16_t *)data)[place];
    }
}

/* How many of `count` codes differ; `first` becomes the place of the first one, `largest` the
 * largest distance, where these are not NULL. */
static inline size_t qp_differing(qp_type type, const void *expected, const void *found,
                                  size_t count, size_t *first, int32_t *largest) {
    size_t differing = 0;
    if (largest) *largest = 0;
    for (size_t i = 0; i < count; i++) {
        int32_t apart = qp_code(type, found, i) - qp_code(type, expected, i);
        if (apart == 0) continue;
        if (differing++ == 0 && first) *first = i;
        if (apart < 0) apart = -apart;
        if (largest && apart > *largest) *largest = apart;
    }
    return differing;
}

/* The tensor of this name, or NULL. */
static inline const qp_tensor *qp_find(const qp_tensor *table, size_t size, const char *tensor) {
    for (size_t i = 0; i < size; i++)
        if (strcmp(table[i].tensor, tensor) == 0) return &table[i];
    return NULL;
}

/* How many codes of `found` differ from those of the tensor, said on standard output; -1 where
 * there is no such tensor. */
static inline long qp_check(const qp_tensor *table, size_t size, const char *tensor,
                            const void *found) {
    const qp_tensor *known = qp_find(table, size, tensor);
    size_t first = 0;
    int32_t largest;
    if (!known) {
        printf("%s: no such tensor\n", tensor);
        return -1;
    }
    size_t differing =
        qp_differing(known->type, known->data, found, known->count, &first, &largest);
    if (differing)
        printf("%s%s%s: %lu of %lu codes differ, by %ld at most; the first at %lu: %ld, "
               "not %ld\n",
               tensor, known->node[0] ? ", written by " : "", known->node, (unsigned long)differing, (unsigned long)known->count,
               (long)largest, (unsigned long)first, (long)qp_code(known->type, found, first),
               (long)qp_code(known->type, known->data, first));
    else
        printf("%s: equal\n", tensor);
    return (long)differing;
}

#endif
