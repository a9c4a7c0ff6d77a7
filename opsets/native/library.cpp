/* What onnxruntime loads: the kernels as ops of domain "qpasses". */

#include "instruction_sets.h"
#include "kernels.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#ifdef QPASSES_NEON
#include <sys/auxv.h>
#endif

namespace qpasses {
namespace {

const Kernel *const KERNELS[] = {
    &GEMMLOWP_SOFTMAX, &INT_ADD, &INT_AVERAGE_POOL, &INT_CODED_P_RELU, &INT_CONV, &INT_CONV_PER_CHANNEL,
    &INT_COUNTED_AVERAGE_POOL, &INT_DIV, &INT_GEMM, &INT_GLOBAL_AVERAGE_POOL, &INT_GRU, &INT_LAYER_NORM,
    &INT_LOG_SOFTMAX, &INT_LSTM, &INT_MAT_MUL, &INT_MAX_POOL, &INT_MUL, &INT_PAD, &INT_P_RELU, &INT_REDUCE,
    &INT_RESCALE,
    &INT_RESCALED_ADD, &INT_RESCALED_SUB, &INT_RESIZE, &INT_RNN, &INT_SUB, &I_BERT_GELU, &I_BERT_SOFTMAX,
    &I_LAYER_NORM, &LUT, &LUT16, &LUT_INTERPOLATED, &LUT_INTERPOLATED_PER_CHANNEL, &LUT_PAIR,
    &LUT_PER_CHANNEL, &REQUANTIZE, &SHIFTMAX, &SHIFT_GELU, &TABLE_SOFTMAX, &TABLE_SOFTMAX16,
};

struct Registered : Op {
    const Kernel *kernel;
};

struct Instance {
    const Api *api;
    const Kernel *kernel;
    void *state;
};

enum { FAIL = 1, INVALID_ARGUMENT = 2, REQUIRED = 0 };

Status failure(const Api *api, const char *message) {
    return reinterpret_cast<Status (*)(int, const char *)>(api->functions[CREATE_STATUS])(
        INVALID_ARGUMENT, message);
}

const Kernel *kernel_of(const Op *op) { return static_cast<const Registered *>(op)->kernel; }

Status create(const Op *op, const Api *api, const void *info, void **found) {
    const Kernel *kernel = kernel_of(op);
    try {
        *found = new Instance{api, kernel, kernel->create({api, info})};
        return nullptr;
    } catch (const std::exception &error) {
        return failure(api, error.what());
    }
}

Status compute(void *state, void *context) {
    const Instance *instance = static_cast<Instance *>(state);
    try {
        instance->kernel->compute(instance->state, {instance->api, context, instance->kernel});
        return nullptr;
    } catch (const std::exception &error) {
        return failure(instance->api, error.what());
    }
}

void destroy(void *state) {
    Instance *instance = static_cast<Instance *>(state);
    instance->kernel->destroy(instance->state);
    delete instance;
}

const Api *known_api;

/* Names for sizes of which nothing is known, each of its own: onnxruntime takes those of one name
   for equal, and those without, and puts one tensor where another was. */
class Unnamed {
  public:
    explicit Unnamed(Sizes &sizes) {
        static std::atomic<uint64_t> count{0};
        for (size_t k = 0; k < sizes.rank; k++)
            if (sizes.numbers[k] < 0 && (!sizes.names[k] || !*sizes.names[k])) {
                std::snprintf(names_[k], sizeof names_[k], "qpasses_%llu",
                              static_cast<unsigned long long>(count++));
                sizes.names[k] = names_[k];
            }
    }

  private:
    char names_[MOST_AXES][32];
};

/* Says the shape of an output, and that it has the type of an input: nothing where its rank is
   not known. It then has the type of the last input, as those with such outputs have it. */
void set_output(const Inference &given, size_t place, size_t typed_as, Sizes sizes) {
    if (!sizes.is_known)
        return;
    const Api *api = given.api;
    void *typed = nullptr, *made = nullptr;
    int type = 0;
    check(api, call<void *, size_t, void **>(api, INFERENCE_INPUT, given.context, typed_as, &typed));
    check(api, call<const void *, int *>(api, ELEMENT_TYPE, typed, &type));
    const Unnamed named(sizes);
    check(api, call<void **>(api, CREATE_INFO, &made));
    const auto release = reinterpret_cast<void (*)(void *)>(api->functions[RELEASE_INFO]);
    const std::unique_ptr<void, void (*)(void *)> owned(made, release);
    check(api, call<void *, int>(api, SET_ELEMENT_TYPE, made, type));
    check(api, call<void *, const int64_t *, size_t>(api, SET_DIMENSIONS, made, sizes.numbers,
                                                     sizes.rank));
    check(api, call<void *, const char **, size_t>(api, SET_SYMBOLIC_DIMENSIONS, made, sizes.names,
                                                   sizes.rank));
    check(api, call<void *, size_t, const void *>(api, INFERENCE_OUTPUT, given.context, place, made));
}

/* The output has the shape that the kernel says, else that of the first input, broadcast with
   another if there is one, and the type of the input that has it. */
Status infer(const Op *op, void *context) {
    const Api *api = known_api;
    const Kernel *kernel = kernel_of(op);
    const Inference given = {api, context};
    try {
        Sizes sizes = given.input(0);
        if (kernel->other)
            sizes.join(given.input(kernel->other));
        if (kernel->shape)
            kernel->shape(given, sizes);
        set_output(given, 0, kernel->typed_as, sizes);
        if (kernel->states[0]) {
            Sizes last = sizes;
            last.rank = 3;
            for (size_t k = 0; k < 3; k++) {
                last.numbers[k] = sizes.numbers[k + 1];
                last.names[k] = sizes.names[k + 1];
            }
            for (size_t k = 0; k + 1 < kernel->outputs(); k++)
                set_output(given, k + 1, kernel->states[k], last);
        }
    } catch (const std::exception &error) {
        return failure(api, error.what());
    }
    return nullptr;
}

Registered registered(const Kernel *kernel) {
    Registered op = {};
    op.version = OP_VERSION;
    op.name = [](const Op *each) { return kernel_of(each)->name; };
    op.provider = [](const Op *) { return "CPUExecutionProvider"; };
    op.input_type = [](const Op *, size_t) -> int { return ANY; };
    op.input_count = [](const Op *each) { return kernel_of(each)->inputs; };
    op.output_type = [](const Op *, size_t) -> int { return ANY; };
    op.output_count = [](const Op *each) { return kernel_of(each)->outputs(); };
    op.destroy = destroy;
    op.input_kind = op.output_kind = op.input_memory = [](const Op *, size_t) -> int {
        return REQUIRED;
    };
    op.least_inputs = op.least_outputs = [](const Op *) { return 1; };
    op.inputs_are_alike = op.outputs_are_alike = [](const Op *) { return 0; };
    op.create_kernel_2 = create;
    op.compute_2 = compute;
    op.infer = infer;
    op.first_version = [](const Op *) { return 1; };
    op.last_version = [](const Op *) { return 0x7fffffff; };
    op.kernel = kernel;
    return op;
}

} // namespace

/* Whether the processor has it. */
static bool is_here(InstructionSet set) {
#if QPASSES_SETS > 1
    if (set == AVX512)
        return __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512bw");
    if (set == AVX2)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
               __builtin_cpu_supports("bmi2");
#endif
#ifdef QPASSES_NEON
    if (set == DOTPROD)
        return getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
    if (set == NEON)
        return true;
#endif
    return set == PLAIN;
}

static const struct {
    const char *name;
    InstructionSet set;
} SETS[] = {{"avx512", AVX512}, {"avx2", AVX2}, {"dotprod", DOTPROD}, {"neon", NEON},
            {"plain", PLAIN}};

/* The best that is here, or the one that QPASSES_ISA names; false if that is not here. */
static bool choose(InstructionSet *found) {
    const char *wanted = std::getenv("QPASSES_ISA");
    for (const auto &each : SETS)
        if (is_here(each.set) && (!wanted || !*wanted || !std::strcmp(wanted, each.name))) {
            *found = each.set;
            return true;
        }
    return false;
}

InstructionSet chosen_set() {
    static const InstructionSet chosen = [] {
        InstructionSet found = PLAIN;
        choose(&found);
        return found;
    }();
    return chosen;
}

} // namespace qpasses

/* The names of the ops that a session asks for, each between commas; nothing stands for all. */
static std::string asked_for(const qpasses::Api *api, const void *options) {
    using namespace qpasses;
    const auto read = [&](char *text, size_t *size) {
        return is_done(api, call<const void *, const char *, char *, size_t *>(
                                api, CONFIGURATION, options, "qpasses.ops", text, size));
    };
    size_t size = 0;
    if (!read(nullptr, &size))
        return "";
    std::string found(size, '\0');
    return read(&found[0], &size) ? found.c_str() : "";
}

/* Called by onnxruntime for each session that is to know the ops: a status, or NULL. It makes
   schemas of all types for each of them: a session that names its own is loaded sooner. */
extern "C" __attribute__((visibility("default"))) qpasses::Status
RegisterCustomOps(void *options, const qpasses::ApiBase *base) {
    using namespace qpasses;
    static std::mutex one_at_a_time;
    const std::lock_guard<std::mutex> alone(one_at_a_time);
    static const auto &ops = *[] { /* which stay to the end: sessions may live as long */
        auto *found = new std::vector<Registered>;
        for (const Kernel *each : KERNELS)
            found->push_back(registered(each));
        return found;
    }();
    static std::map<std::string, void *> domains; /* by what is asked for; sessions read them */
    const Api *api = base->get_api(VERSION);
    if (!api)
        return failure(base->get_api(1), "this onnxruntime is older than 1.24");
    known_api = api;
    InstructionSet set;
    if (!choose(&set))
        return failure(api, "QPASSES_ISA names an instruction set that this processor or library "
                            "has not: leave it away, or use avx512, avx2, dotprod, neon or "
                            "plain");
    const std::string asked = asked_for(api, options);
    void *&domain = domains[asked];
    if (!domain) {
        void *made = nullptr;
        Status status = call<const char *, void **>(api, CREATE_DOMAIN, "qpasses", &made);
        for (const Registered &op : ops) {
            const std::string name = std::string(",") + op.kernel->name + ",";
            if (!status && (asked.empty() || asked.find(name) != asked.npos))
                status = call<void *, const void *>(api, ADD_OP, made, &op);
        }
        if (status)
            return status;
        domain = made;
    }
    return call<void *, void *>(api, ADD_DOMAIN, options, domain);
}
