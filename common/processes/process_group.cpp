#include "common/processes/process_group.h"

#include <c10/util/Logging.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "common/cli/error.h"
#include "common/processes/nccl.h"
#include "common/text/text.h"
#include "common/torch/error_text.h"

namespace coldframe {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;  // bytes; the store takes up to 8 MiB at once
constexpr std::chrono::milliseconds kLookAtWatch{500};
constexpr std::chrono::seconds kJoinGpus{60};

// The store reports each try, with a stack, on stderr; what matters is in the error that it throws.
void quieten_store() {
  ::setenv("TORCH_CPP_LOG_LEVEL", "FATAL", /*overwrite=*/0);
  c10::initLogging();
}

// A connection to the store, which begins with it on rank 0 when `keeps`.
c10::intrusive_ptr<c10d::Store> open_store(const Launch& launch, bool keeps,
                                           std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = launch.master_port;
  options.isServer = keeps && launch.rank == 0 && launch.store_prefix.empty();
  options.waitWorkers = false;
  options.timeout = timeout;
  auto store = c10::make_intrusive<c10d::TCPStore>(launch.master_address, options);
  return c10::make_intrusive<c10d::PrefixStore>(launch.store_prefix + "/coldframe", store);
}

// "rank 1 (node2, process 4711)"
std::string own_name(int rank) {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  return concat("rank ", rank, " (", host, ", process ", ::getpid(), ")");
}

void nccl_sum(Nccl& nccl, const torch::Tensor& tensor) {
  try {
    nccl.sum(tensor);
  } catch (const c10::Error& error) {
    throw SystemError(
        concat("NCCL: ", first_line(error), "; start the job again, with --resume, to continue"));
  }
}

}  // namespace

ProcessGroup::ProcessGroup(const Launch& launch, const ProcessGroupOptions& options)
    : launch_(launch) {
  try {
    meet(options);
  } catch (const std::exception& error) {
    throw SystemError(concat("the ", launch.size, " processes of this job did not meet at ",
                             launch.master_address, ":", launch.master_port, ": ",
                             first_line(error),
                             "; start all of them, and check MASTER_ADDR and MASTER_PORT"));
  }
}

// The watch tells the others before the store ends.
ProcessGroup::~ProcessGroup() {
  watch_.reset();
}

void ProcessGroup::meet(const ProcessGroupOptions& options) {
  quieten_store();
  store_ = open_store(launch_, true, options.join);
  PeerWatch::register_rank(*store_, rank());
  std::vector<std::string> keys, names;
  for (int rank = 0; rank < size(); ++rank) keys.push_back(concat("name/", rank));
  store_->set(keys[static_cast<std::size_t>(rank())], own_name(rank()));
  for (const Bytes& name : store_->multiGet(keys)) names.emplace_back(name.begin(), name.end());
  const std::string keeper =
      launch_.store_prefix.empty()
          ? names.front()
          : concat("torchrun's store at ", launch_.master_address, ":", launch_.master_port);
  watch_ = std::make_unique<PeerWatch>(open_store(launch_, false, options.join), rank(), names,
                                       keeper, options.watch);
  store_->setTimeout(kLookAtWatch);
}

std::string ProcessGroup::key(int rank, std::size_t piece) const {
  return concat("data/", operation_, "/", rank, "/", piece);
}

// A call that times out is made again.
template <typename Call>
void ProcessGroup::ask_store(const Call& call) {
  for (;;) {
    if (watch_->failed()) throw SystemError(watch_->failure());
    try {
      return call();
    } catch (const c10::DistStoreError&) {
      continue;
    } catch (const c10::Error&) {
      throw SystemError(watch_->failure());
    }
  }
}

void ProcessGroup::publish(std::size_t piece, const Bytes& bytes) {
  published_.push_back(key(rank(), piece));
  ask_store([&] { store_->set(published_.back(), bytes); });
}

ProcessGroup::Bytes ProcessGroup::fetch(int rank, std::size_t piece, std::size_t size) {
  Bytes bytes;
  ask_store([&] { bytes = store_->get(key(rank, piece)); });
  if (bytes.size() == size) return bytes;
  throw SystemError(concat("rank ", rank, " sends ", bytes.size(), " bytes where ", size,
                           " are expected; start all processes with one version and one data"));
}

// A chain from rank 0 to the last, whose sum all read, in pieces that follow one another.
template <typename T>
void ProcessGroup::sum_in_order(std::span<const T* const> parts, std::span<T> result) {
  constexpr std::size_t kValues = kPiece / sizeof(T);
  const bool last = rank() == size() - 1;
  std::vector<std::string> before = std::exchange(published_, {});
  ++operation_;
  for (std::size_t from = 0; from < result.size(); from += kValues) {
    const std::size_t count = std::min(kValues, result.size() - from), bytes = count * sizeof(T);
    const std::size_t first = leads() && !parts.empty() ? 1 : 0;
    Bytes running(leads() ? bytes : 0);
    if (first) std::memcpy(running.data(), parts.front() + from, bytes);
    if (!leads()) running = fetch(rank() - 1, from / kValues, bytes);
    T* const sum = reinterpret_cast<T*>(running.data());
    for (std::size_t part = first; part < parts.size(); ++part) {
      for (std::size_t i = 0; i < count; ++i) sum[i] += parts[part][from + i];
    }
    publish(from / kValues, running);
    if (last) std::memcpy(result.data() + from, running.data(), bytes);
  }
  for (const std::string& old : std::exchange(read_, {})) {
    ask_store([&] { store_->deleteKey(old); });
  }
  for (std::size_t from = 0; !last && from < result.size(); from += kValues) {
    const std::size_t bytes = std::min(kValues, result.size() - from) * sizeof(T);
    const Bytes sum = fetch(size() - 1, from / kValues, bytes);
    std::memcpy(result.data() + from, sum.data(), bytes);
  }
  read_ = std::move(before);  // All have begun this sum, and are done with what was before.
}

void ProcessGroup::sum(std::span<const float* const> parts, std::span<float> result) {
  sum_in_order(parts, result);
}

void ProcessGroup::sum(std::span<const double* const> parts, std::span<double> result) {
  sum_in_order(parts, result);
}

template <typename T>
void ProcessGroup::sum_in_place(std::span<T> values) {
  const T* const part = values.data();
  sum_in_order<T>({&part, 1}, values);
}

void ProcessGroup::sum(std::span<double> values) {
  sum_in_place(values);
}

double ProcessGroup::sum(double value) {
  sum_in_place(std::span(&value, 1));
  return value;
}

void ProcessGroup::sum(torch::Tensor tensor) {
  torch::NoGradGuard no_grad;
  if (tensor.is_cuda() && !nccl_tried_) {
    nccl_tried_ = true;
    nccl_ = Nccl::join(*this, open_store(launch_, false, kJoinGpus), tensor.device());
  }
  if (tensor.is_cuda() && nccl_) return nccl_sum(*nccl_, tensor);
  torch::Tensor values = tensor.cpu();
  sum_in_place(std::span(values.data_ptr<float>(), static_cast<std::size_t>(values.numel())));
  if (!tensor.is_cpu()) tensor.copy_(values);
}

void ProcessGroup::broadcast_bytes(std::span<std::byte> bytes) {
  ++operation_;
  for (std::size_t from = 0; from < bytes.size(); from += kPiece) {
    const std::size_t count = std::min(kPiece, bytes.size() - from);
    auto* const data = reinterpret_cast<std::uint8_t*>(bytes.data() + from);
    if (leads()) {
      publish(from / kPiece, {data, data + count});
    } else {
      std::memcpy(data, fetch(0, from / kPiece, count).data(), count);
    }
  }
}

void ProcessGroup::broadcast(torch::Tensor tensor) {
  torch::NoGradGuard no_grad;
  torch::Tensor values = tensor.cpu();
  broadcast_bytes({static_cast<std::byte*>(values.data_ptr()), values.nbytes()});
  if (!tensor.is_cpu()) tensor.copy_(values);
}

std::string ProcessGroup::broadcast(const std::string& text) {
  std::uint64_t length = text.size();
  broadcast_bytes(std::as_writable_bytes(std::span(&length, 1)));
  std::string result = text;
  result.resize(length);
  broadcast_bytes(std::as_writable_bytes(std::span(result)));
  return result;
}

bool ProcessGroup::broadcast(bool value) {
  char byte = value ? 1 : 0;
  broadcast_bytes(std::as_writable_bytes(std::span(&byte, 1)));
  return byte != 0;
}

void ProcessGroup::leave() {
  watch_->leave();
}

void ProcessGroup::fail(const std::string& reason) {
  watch_->tell(reason);
}

}  // namespace coldframe
