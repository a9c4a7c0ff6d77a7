/* The counter as a node of an onnxruntime graph: domain "qpasses", op "Observe".

   Inputs: a float32 tensor and a desk (tally.py: int64 words, most of them addresses).
   Attributes: row; block, of so many channels (axis 1) the values stand in turns. Output:
   nothing, an empty int64 tensor, to hang the node on.

   Only version 1 of onnxruntime's C interface is used. That never changes: functions are
   found by their place in its table. */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#if defined(_WIN32)
#define EXPORTED __declspec(dllexport)
#else
#define EXPORTED
#endif

EXPORTED void observe(const int64_t *desk, int64_t row, const float *values, size_t size);
EXPORTED void observe_channels(const int64_t *desk, int64_t row, const float *values,
                               const int64_t *shape, int block);

enum { /* places in OrtApi */
    CREATE_DOMAIN = 26,
    ADD_OP = 27,
    ADD_DOMAIN = 28,
    TENSOR_DATA = 51,
    DIMENSIONS_COUNT = 61,
    DIMENSIONS = 62,
    ELEMENT_COUNT = 64,
    TYPE_AND_SHAPE = 65,
    INT_ATTRIBUTE = 86,
    GET_INPUT = 90,
    GET_OUTPUT = 91,
    RELEASE_SHAPE = 99,
    VERSION_1_SIZE = 102
};

enum { MOST_AXES = 32 };
enum { FLOAT = 1, INT64 = 7, REQUIRED = 0, OP_VERSION = 8 };

typedef void (*Function)(void);
typedef struct {
    Function functions[VERSION_1_SIZE];
} Api;
typedef struct {
    const Api *(*get_api)(uint32_t version);
    const char *(*version)(void);
} ApiBase;

typedef void *(*Status1)(const void *, void *);
typedef void *(*Status2)(const void *, const void *, void *);
typedef void *(*StatusSized)(const void *, void *, size_t);
typedef void *(*StatusInput)(const void *, size_t, const void **);
typedef void *(*StatusOutput)(void *, size_t, const int64_t *, size_t, void **);

typedef struct {
    const Api *api;
    int64_t row, block;
} Kernel;

/* OrtCustomOp of version 8. */
typedef struct Op {
    uint32_t version;
    void *(*create_kernel)(const struct Op *, const Api *, const void *info);
    const char *(*name)(const struct Op *);
    const char *(*provider)(const struct Op *);
    int (*input_type)(const struct Op *, size_t);
    size_t (*input_count)(const struct Op *);
    int (*output_type)(const struct Op *, size_t);
    size_t (*output_count)(const struct Op *);
    void (*compute)(void *kernel, void *context);
    void (*destroy)(void *kernel);
    int (*input_kind)(const struct Op *, size_t);
    int (*output_kind)(const struct Op *, size_t);
} Op;

static void *create_kernel(const Op *op, const Api *api, const void *info) {
    Kernel *kernel = malloc(sizeof *kernel);
    (void)op;
    if (!kernel)
        abort();
    kernel->api = api;
    ((Status2)api->functions[INT_ATTRIBUTE])(info, "row", &kernel->row);
    ((Status2)api->functions[INT_ATTRIBUTE])(info, "block", &kernel->block);
    return kernel;
}

static const void *data(const Api *api, void *context, size_t input, const void **value) {
    void *found;
    ((StatusInput)api->functions[GET_INPUT])(context, input, value);
    ((Status1)api->functions[TENSOR_DATA])(*value, &found);
    return found;
}

/* As rows, channels and what is behind; all of fewer than two axes, or of many, is one row. */
static void dimensions(const Function *functions, const void *found, int64_t shape[3]) {
    int64_t sizes[MOST_AXES];
    size_t count;
    ((Status1)functions[DIMENSIONS_COUNT])(found, &count);
    shape[0] = shape[1] = shape[2] = 1;
    if (count < 2 || count > MOST_AXES)
        return;
    ((StatusSized)functions[DIMENSIONS])(found, sizes, count);
    for (size_t axis = 0; axis < count; axis++)
        shape[axis < 2 ? axis : 2] *= sizes[axis];
}

static void compute(void *state, void *context) {
    const Kernel *kernel = state;
    const Function *functions = kernel->api->functions;
    const void *tensor, *desk;
    void *shape, *nothing;
    size_t size;
    int64_t empty = 0, sizes[3];
    const float *values = data(kernel->api, context, 0, &tensor);
    const int64_t *words = data(kernel->api, context, 1, &desk);
    ((Status1)functions[TYPE_AND_SHAPE])(tensor, &shape);
    ((Status1)functions[ELEMENT_COUNT])(shape, &size);
    dimensions(functions, shape, sizes);
    ((void (*)(void *))functions[RELEASE_SHAPE])(shape);
    observe(words, kernel->row, values, size);
    observe_channels(words, kernel->row, values, sizes, (int)kernel->block);
    ((StatusOutput)functions[GET_OUTPUT])(context, 0, &empty, 1, &nothing);
}

static const char *name(const Op *op) { return (void)op, "Observe"; }
static const char *provider(const Op *op) { return (void)op, "CPUExecutionProvider"; }
static int input_type(const Op *op, size_t i) { return (void)op, i ? INT64 : FLOAT; }
static size_t input_count(const Op *op) { return (void)op, 2; }
static int output_type(const Op *op, size_t i) { return (void)op, (void)i, INT64; }
static size_t output_count(const Op *op) { return (void)op, 1; }
static int kind(const Op *op, size_t i) { return (void)op, (void)i, REQUIRED; }

static const Op OBSERVE = {
    OP_VERSION,  create_kernel, name,    provider, input_type, input_count,
    output_type, output_count,  compute, free,     kind,       kind};

/* Called by onnxruntime for each session that is to know the op: a status, NULL if all is well. */
EXPORTED void *RegisterCustomOps(void *options, const ApiBase *base) {
    static void *domain;
    const Api *api = base->get_api(1);
    if (!domain) {
        void *status = ((Status1)api->functions[CREATE_DOMAIN])("qpasses", &domain);
        if (!status)
            status = ((Status1)api->functions[ADD_OP])(domain, (void *)&OBSERVE);
        if (status)
            return status;
    }
    return ((Status1)api->functions[ADD_DOMAIN])(options, domain);
}
