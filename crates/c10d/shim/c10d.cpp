// A C interface to libtorch's c10d, for src/ffi.rs. No exception leaves it: a function answers a code, and the calling thread's
// message says what went wrong. Handles are owned by the caller and freed with the function of their kind.

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/csrc/distributed/c10d/exception.h>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <torch/version.h>
#ifdef USE_C10D_NCCL
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

// What follows fits the interfaces of one release: the Reducer's constructor, and the function below.
static_assert(TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR == 11, "this shim is written for libtorch 2.11");

// Exported by libtorch_cpu, but declared in a header of Gloo's that Debian doesn't ship. It fails every operation of a pair,
// as Gloo itself does when one of them times out, and answers with which exception.
namespace gloo::transport::tcp {
class Pair {
 public:
  std::exception_ptr signalExceptionExternal(const std::string& message);
};
} // namespace gloo::transport::tcp

namespace {

using Millis = std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
using StorePtr = c10::intrusive_ptr<c10d::Store>;

enum Code : int { kOk = 0, kTimeout = 1, kFailed = 2 };

thread_local std::string last_error;

int fail(std::string message) {
  last_error = std::move(message);
  std::string lower = last_error;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const char* sign : {"timed out", "timeout"}) {
    if (lower.find(sign) != std::string::npos) return kTimeout;
  }
  return kFailed;
}

template <typename F>
int guard(F&& body) {
  try {
    at::NoGradGuard no_grad;
    body();
    return kOk;
  } catch (const c10d::TimeoutError& e) {
    fail(e.what_without_backtrace());
    return kTimeout;
  } catch (const c10::Error& e) {
    return fail(e.what_without_backtrace());
  } catch (const std::exception& e) {
    return fail(e.what());
  } catch (...) {
    return fail("an exception of unknown type");
  }
}

// What c10d's Gloo group lacks: an abort.
class Gloo : public c10d::ProcessGroupGloo {
 public:
  using c10d::ProcessGroupGloo::ProcessGroupGloo;

  void abort() override {
    for (auto& context : contexts_) {
      for (int peer = 0; peer < getSize(); peer++) {
        if (peer == getRank()) continue;
        auto* pair = reinterpret_cast<gloo::transport::tcp::Pair*>(context->getPair(peer).get());
        if (pair != nullptr) pair->signalExceptionExternal("aborted");
      }
    }
  }
};

std::vector<uint8_t> bytes(const uint8_t* data, size_t len) {
  return std::vector<uint8_t>(data, data + len);
}

} // namespace

struct Store {
  StorePtr store;
};

struct Group {
  StorePtr store;
  c10::intrusive_ptr<c10d::Backend> backend;
  int device_index; // of CUDA; -1: Gloo

  void finish(const c10::intrusive_ptr<c10d::Work>& work, Millis timeout) const {
    try {
      wait(work, timeout);
    } catch (...) {
      // A rank that fails leaves its peers waiting, and those theirs: pass it on.
      backend->abort();
      throw;
    }
  }

 private:
  void wait(const c10::intrusive_ptr<c10d::Work>& work, Millis timeout) const {
    if (device_index < 0) {
      work->wait();
      return;
    }
    // NCCL's own wait only orders streams: a dead peer would show up later, elsewhere. So wait for the result itself.
    const auto deadline = Clock::now() + timeout;
    while (!work->isCompleted()) {
      if (Clock::now() > deadline) {
        C10D_THROW_ERROR(TimeoutError, "Timed out waiting ", timeout.count(), "ms for a collective");
      }
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    if (auto error = work->exception()) std::rethrow_exception(error);
    work->synchronize();
  }
};

struct Reduction {
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  std::vector<at::Tensor> params;
  std::unique_ptr<c10d::Reducer> reducer;
};

extern "C" {

const char* c10d_last_error() {
  return last_error.c_str();
}

// ---- stores

int c10d_store_tcp(const char* host, uint16_t port, int listen_fd, int64_t timeout_ms, Store** out) {
  return guard([&] {
    c10d::TCPStoreOptions options;
    options.port = port;
    options.isServer = listen_fd >= 0;
    options.waitWorkers = false;
    options.timeout = Millis(timeout_ms);
    if (options.isServer) options.masterListenFd = listen_fd;
    *out = new Store{c10::make_intrusive<c10d::TCPStore>(host, options)};
  });
}

int c10d_store_prefix(const Store* store, const char* prefix, Store** out) {
  return guard([&] { *out = new Store{c10::make_intrusive<c10d::PrefixStore>(prefix, store->store)}; });
}

int c10d_store_set(const Store* store, const char* key, const uint8_t* data, size_t len) {
  return guard([&] { store->store->set(key, bytes(data, len)); });
}

int c10d_store_get(const Store* store, const char* key, int64_t timeout_ms, void (*give)(void*, const uint8_t*, size_t), void* to) {
  return guard([&] {
    store->store->wait({key}, Millis(timeout_ms));
    const auto value = store->store->get(key);
    give(to, value.data(), value.size());
  });
}

int c10d_store_add(const Store* store, const char* key, int64_t amount, int64_t* out) {
  return guard([&] { *out = store->store->add(key, amount); });
}

int c10d_store_check(const Store* store, const char* key, bool* out) {
  return guard([&] { *out = store->store->check({key}); });
}

int c10d_store_delete_key(const Store* store, const char* key, bool* out) {
  return guard([&] { *out = store->store->deleteKey(key); });
}

int c10d_store_num_keys(const Store* store, int64_t* out) {
  return guard([&] { *out = store->store->getNumKeys(); });
}

int c10d_store_free(Store* store) {
  return guard([&] { delete store; });
}

// ---- groups

int c10d_group_gloo(const Store* store, int rank, int size, int64_t timeout_ms, const char* address, Group** out) {
  return guard([&] {
    auto options = c10d::ProcessGroupGloo::Options::create(Millis(timeout_ms));
    // Eager connections: with lazy ones the passive side doesn't heed the timeout (pytorch/gloo issue 520).
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(address, /*lazyInit=*/false));
    auto backend = c10::make_intrusive<Gloo>(store->store, rank, size, options);
    *out = new Group{store->store, std::move(backend), -1};
  });
}

#ifdef USE_C10D_NCCL
int c10d_group_nccl(const Store* store, int rank, int size, int64_t timeout_ms, int device_index, Group** out) {
  return guard([&] {
    auto options = c10d::ProcessGroupNCCL::Options::create();
    options->timeout = Millis(timeout_ms);
    auto backend = c10::make_intrusive<c10d::ProcessGroupNCCL>(store->store, rank, size, options);
    const at::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(device_index));
    backend->setBoundDeviceId(device);
    backend->eagerConnectSingleDevice(device);
    *out = new Group{store->store, std::move(backend), device_index};
  });
}
#endif

int c10d_group_broadcast(const Group* group, at::Tensor* tensor, int root, int64_t timeout_ms) {
  return guard([&] {
    c10d::BroadcastOptions options;
    options.rootRank = root;
    options.timeout = Millis(timeout_ms);
    std::vector<at::Tensor> tensors{*tensor};
    group->finish(group->backend->broadcast(tensors, options), options.timeout);
  });
}

int c10d_group_all_reduce(const Group* group, at::Tensor* tensor, int op, int64_t timeout_ms) {
  return guard([&] {
    constexpr c10d::ReduceOp::RedOpType ops[] = {c10d::ReduceOp::SUM, c10d::ReduceOp::MIN, c10d::ReduceOp::MAX};
    c10d::AllreduceOptions options;
    options.reduceOp = ops[op];
    options.timeout = Millis(timeout_ms);
    std::vector<at::Tensor> tensors{*tensor};
    group->finish(group->backend->allreduce(tensors, options), options.timeout);
  });
}

int c10d_group_all_gather(const Group* group, at::Tensor* const* outputs, size_t count, const at::Tensor* input, int64_t timeout_ms) {
  return guard([&] {
    c10d::AllgatherOptions options;
    options.timeout = Millis(timeout_ms);
    std::vector<std::vector<at::Tensor>> all(1);
    for (size_t i = 0; i < count; i++) all[0].push_back(*outputs[i]);
    std::vector<at::Tensor> inputs{*input};
    group->finish(group->backend->allgather(all, inputs, options), options.timeout);
  });
}

int c10d_group_all_to_all(
    const Group* group,
    at::Tensor* output,
    const at::Tensor* input,
    const int64_t* output_counts,
    const int64_t* input_counts,
    size_t count,
    int64_t timeout_ms) {
  return guard([&] {
    c10d::AllToAllOptions options;
    options.timeout = Millis(timeout_ms);
    std::vector<int64_t> to(output_counts, output_counts + count);
    std::vector<int64_t> from(input_counts, input_counts + count);
    at::Tensor out = *output, in = *input;
    group->finish(group->backend->alltoall_base(out, in, to, from, options), options.timeout);
  });
}

int c10d_group_barrier(const Group* group, int64_t timeout_ms) {
  return guard([&] {
    c10d::BarrierOptions options;
    options.timeout = Millis(timeout_ms);
    if (group->device_index >= 0) options.device_ids = {group->device_index};
    group->finish(group->backend->barrier(options), options.timeout);
  });
}

int c10d_group_abort(const Group* group) {
  return guard([&] { group->backend->abort(); });
}

int c10d_group_free(Group* group) {
  return guard([&] { delete group; });
}

// ---- kernels

int c10d_kernels_pin() {
  return guard([] {
    auto& context = at::globalContext();
    context.setBenchmarkCuDNN(false);
    context.setDeterministicCuDNN(true);
    context.setAllowTF32CuBLAS(false);
    context.setAllowTF32CuDNN(false);
    // Filling what is allocated costs time and changes nothing that is computed.
    context.setDeterministicFillUninitializedMemory(false);
    context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  });
}

int c10d_kernels_pinned(bool* out) {
  return guard([&] {
    auto& context = at::globalContext();
    *out = context.deterministicAlgorithms() && context.deterministicCuDNN() && !context.benchmarkCuDNN() &&
        !context.allowTF32CuBLAS() && !context.allowTF32CuDNN();
  });
}

// ---- the core of DistributedDataParallel

int c10d_reducer_new(
    const Group* group,
    at::Tensor* const* params,
    size_t count,
    int64_t bucket_bytes,
    int64_t first_bucket_bytes,
    bool gradients_as_views,
    Reduction** out) {
  return guard([&] {
    auto made = std::make_unique<Reduction>();
    for (size_t i = 0; i < count; i++) made->params.push_back(*params[i]);
    const bool cuda = group->device_index >= 0;
    const auto kind = cuda ? c10d::ProcessGroup::BackendType::NCCL : c10d::ProcessGroup::BackendType::GLOO;
    made->group = c10::make_intrusive<c10d::ProcessGroup>(group->store, group->backend->getRank(), group->backend->getSize());
    made->group->setDefaultBackend(kind);
    made->group->setBackend(cuda ? c10::DeviceType::CUDA : c10::DeviceType::CPU, kind, group->backend);
    const std::vector<bool> sparse(count, false);
    auto buckets = std::get<0>(c10d::compute_bucket_assignment_by_size(
        made->params, {static_cast<size_t>(first_bucket_bytes), static_cast<size_t>(bucket_bytes)}, sparse));
    // Gradients come out last layer first.
    std::reverse(buckets.begin(), buckets.end());
    made->reducer = std::make_unique<c10d::Reducer>(
        made->params,
        std::move(buckets),
        made->group,
        sparse,
        bucket_bytes,
        /*find_unused_parameters=*/false,
        gradients_as_views,
        std::unordered_map<size_t, std::string>{},
        first_bucket_bytes,
        /*skip_all_reduce_unused_params=*/false,
        /*use_python_reducer=*/false,
        std::vector<int64_t>{});
    *out = made.release();
  });
}

int c10d_reducer_forward(Reduction* reduction) {
  return guard([&] {
    for (auto& param : reduction->params) param.mutable_grad() = at::Tensor();
    reduction->reducer->prepare_for_forward();
    if (reduction->reducer->should_rebuild_buckets()) reduction->reducer->rebuild_buckets();
  });
}

int c10d_reducer_backward(Reduction* reduction, const at::Tensor* loss) {
  return guard([&] {
    at::AutoGradMode grad(true);
    reduction->reducer->prepare_for_backward({});
    loss->backward();
  });
}

int c10d_reducer_free(Reduction* reduction) {
  return guard([&] { delete reduction; });
}

} // extern "C"
