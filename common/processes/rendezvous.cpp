#include "common/processes/rendezvous.h"

#include <c10/util/Exception.h>
#include <c10/util/Logging.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <random>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe {
namespace {

// What opens every connection: whoever does not know the job's token is not of the job.
struct Greeting {
  std::array<char, 32> token;
  std::int32_t rank;
  std::int32_t control;  // 1: to rank 0's star, 0: of the ring
};

std::span<std::byte> bytes_of(Greeting& greeting) {
  return std::as_writable_bytes(std::span(&greeting, 1));
}

std::string new_token() {
  std::random_device device;
  std::string token;
  while (token.size() < sizeof(Greeting::token)) token += char('a' + device() % 26);
  return token;
}

// The store reports each try, with a stack, on stderr; what matters is in the error that it throws.
void quieten_store() {
  ::setenv("TORCH_CPP_LOG_LEVEL", "FATAL", /*overwrite=*/0);
  c10::initLogging();
}

std::chrono::milliseconds left_until(Deadline deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return std::max(left, std::chrono::milliseconds(1));
}

c10::intrusive_ptr<c10d::Store> open_store(const Launch& launch, Deadline deadline) {
  quieten_store();
  c10d::TCPStoreOptions options;
  options.port = launch.master_port;
  options.isServer = launch.rank == 0 && launch.store_prefix.empty();
  options.waitWorkers = false;
  options.timeout = left_until(deadline);
  auto store = c10::make_intrusive<c10d::TCPStore>(launch.master_address, options);
  return c10::make_intrusive<c10d::PrefixStore>(launch.store_prefix + "/coldframe", store);
}

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

struct Peer {
  HostPort address;
  std::string name;
};

Peer parse_peer(const std::string& entry, int rank) {
  const auto parts = split(entry, '\n');
  std::int64_t port = 0;
  if (parts.size() != 4 || !parse_int(parts[1], port) || port < 1 || port > 65535) {
    throw SystemError(concat("the store of this job holds no address of rank ", rank,
                             " that this version understands; start all with one version"));
  }
  return {{parts[0], static_cast<std::uint16_t>(port)},
          concat("rank ", rank, " (", parts[2], ", process ", parts[3], ")")};
}

// Connects and says who it is.
Socket greet(const Launch& launch, const Peer& to, const std::string& token, bool control,
             Deadline deadline) {
  Socket socket = connect_to(to.address, deadline);
  Greeting greeting{{}, launch.rank, control};
  std::memcpy(greeting.token.data(), token.data(), greeting.token.size());
  socket.send_all(bytes_of(greeting), deadline);
  return socket;
}

// Fills connections.previous and, on rank 0, the star.
void accept_peers(const Launch& launch, const Listener& listener, const std::string& token,
                  Connections& connections, Deadline deadline) {
  const int before = (launch.rank + launch.size - 1) % launch.size;
  int missing = 1 + (launch.rank == 0 ? launch.size - 1 : 0);
  while (missing > 0) {
    Socket socket = listener.accept(deadline);
    Greeting greeting{};
    try {
      socket.receive_all(bytes_of(greeting),
                         std::min(deadline, Deadline::clock::now() + std::chrono::seconds(5)));
    } catch (const SystemError&) {
      continue;  // a stranger, such as a scan of ports
    }
    const std::string_view given(greeting.token.data(), greeting.token.size());
    if (given != token || greeting.rank < 0 || greeting.rank >= launch.size) continue;
    const bool star = greeting.control == 1 && launch.rank == 0 && greeting.rank > 0;
    if (!star && (greeting.control != 0 || greeting.rank != before)) continue;
    Socket& place = star ? connections.control[static_cast<std::size_t>(greeting.rank - 1)]
                         : connections.previous;
    if (place) continue;
    place = std::move(socket);
    --missing;
  }
}

Connections meet(const Launch& launch, c10d::Store& store, Deadline deadline) {
  const Listener listener({launch.master_address, launch.master_port});
  if (launch.rank == 0) store.set("token", new_token());
  store.set(std::to_string(launch.rank),
            join({listener.address().host, std::to_string(listener.address().port), host_name(),
                  std::to_string(::getpid())},
                 "\n"));
  const std::string token = store.get_to_str("token");
  std::vector<Peer> peers;
  Connections connections;
  for (int rank = 0; rank < launch.size; ++rank) {
    peers.push_back(parse_peer(store.get_to_str(std::to_string(rank)), rank));
    connections.names.push_back(peers.back().name);
  }
  const auto next = static_cast<std::size_t>((launch.rank + 1) % launch.size);
  connections.next = greet(launch, peers[next], token, false, deadline);
  if (launch.rank == 0) {
    connections.control.resize(static_cast<std::size_t>(launch.size - 1));
  } else {
    connections.control.push_back(greet(launch, peers[0], token, true, deadline));
  }
  accept_peers(launch, listener, token, connections, deadline);
  // Rank 0 may keep the store, and closes it behind this: by then everyone must have read it.
  store.add("met", 1);
  while (launch.rank == 0 && store.add("met", 0) < launch.size) {
    if (Deadline::clock::now() > deadline) throw SystemError("not all processes have connected");
    ::usleep(10000);
  }
  return connections;
}

}  // namespace

Connections connect_processes(const Launch& launch, Deadline deadline) {
  try {
    const auto store = open_store(launch, deadline);
    return meet(launch, *store, deadline);
  } catch (const Error& error) {
    throw SystemError(
        concat("the ", launch.size, " processes of this job did not meet: ", error.what()));
  } catch (const std::exception& error) {
    const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
    const std::string what = torch_error ? torch_error->what_without_backtrace() : error.what();
    throw SystemError(concat("the ", launch.size, " processes of this job did not meet at ",
                             launch.master_address, ":", launch.master_port, ": ",
                             what.substr(0, what.find('\n')),
                             "; start all of them, and check MASTER_ADDR and MASTER_PORT"));
  }
}

}  // namespace coldframe
