#include "common/system/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe {
namespace {

using Clock = std::chrono::steady_clock;
using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

AddressList look_up(const HostPort& address, int type) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = type;
  addrinfo* found = nullptr;
  const int code =
      ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (code != 0) {
    throw SystemError(concat("the host '", address.host,
                             "' is not known here: ", ::gai_strerror(code), "; check MASTER_ADDR"));
  }
  return {found, &::freeaddrinfo};
}

int milliseconds_until(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<long>(left, 0, 1 << 30));
}

// False when the deadline passes first.
bool wait_for(int descriptor, short events, Deadline deadline) {
  for (;;) {
    pollfd entry{descriptor, events, 0};
    const int ready = ::poll(&entry, 1, milliseconds_until(deadline));
    if (ready > 0) return true;
    if (ready == 0) return false;
    if (errno != EINTR) throw SystemError(concat("poll: ", std::strerror(errno)));
  }
}

void set_options(int descriptor) {
  const int on = 1;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) | O_NONBLOCK);
}

Socket new_socket(int family, int type) {
  Socket socket(::socket(family, type | SOCK_CLOEXEC, 0));
  if (!socket) throw SystemError(concat("cannot open a socket: ", std::strerror(errno)));
  return socket;
}

// Connected, or an empty socket with errno set.
Socket try_to_connect(const addrinfo& address, Deadline deadline) {
  Socket socket = new_socket(address.ai_family, SOCK_STREAM);
  set_options(socket.descriptor());
  if (::connect(socket.descriptor(), address.ai_addr, address.ai_addrlen) == 0) return socket;
  if (errno != EINPROGRESS) return Socket();
  if (!wait_for(socket.descriptor(), POLLOUT, deadline)) {
    errno = ETIMEDOUT;
    return Socket();
  }
  int problem = 0;
  socklen_t size = sizeof problem;
  ::getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &problem, &size);
  if (problem == 0) return socket;
  errno = problem;
  return Socket();
}

[[noreturn]] void fail_to_send_or_receive() {
  throw SystemError("another process of this job closed its connection or does not answer");
}

bool is_loopback(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    const auto& ip = reinterpret_cast<const sockaddr_in&>(address);
    return (ntohl(ip.sin_addr.s_addr) >> 24) == 127;
  }
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr) != 0;
}

// This machine's own address on the way to `to`. Connecting a datagram socket sends nothing.
sockaddr_storage own_address(const HostPort& to) {
  const AddressList list = look_up(to, SOCK_DGRAM);
  for (const addrinfo* at = list.get(); at != nullptr; at = at->ai_next) {
    const Socket probe(::socket(at->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!probe || ::connect(probe.descriptor(), at->ai_addr, at->ai_addrlen) != 0) continue;
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    if (::getsockname(probe.descriptor(), reinterpret_cast<sockaddr*>(&own), &size) == 0) {
      return own;
    }
  }
  throw SystemError(concat("there is no way from here to the host '", to.host,
                           "'; check MASTER_ADDR and the network"));
}

std::string numeric(const sockaddr_storage& address) {
  char host[NI_MAXHOST] = "";
  ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), sizeof address, host, sizeof host,
                nullptr, 0, NI_NUMERICHOST);
  return host;
}

}  // namespace

std::string HostPort::text() const {
  return concat(host, ":", port);
}

Socket::Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    close();
    descriptor_ = std::exchange(other.descriptor_, -1);
  }
  return *this;
}

Socket::~Socket() {
  close();
}

void Socket::close() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

std::ptrdiff_t Socket::send_some(std::span<const std::byte> bytes) const {
  const ssize_t count = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (count >= 0) return count;
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
}

std::ptrdiff_t Socket::receive_some(std::span<std::byte> bytes) const {
  const ssize_t count = ::recv(descriptor_, bytes.data(), bytes.size(), 0);
  if (count > 0) return count;
  if (count == 0) return -1;
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
}

void Socket::send_all(std::span<const std::byte> bytes, Deadline deadline) const {
  while (!bytes.empty()) {
    const std::ptrdiff_t count = send_some(bytes);
    if (count < 0) fail_to_send_or_receive();
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    if (count == 0 && !wait_for(descriptor_, POLLOUT, deadline)) fail_to_send_or_receive();
  }
}

void Socket::receive_all(std::span<std::byte> bytes, Deadline deadline) const {
  while (!bytes.empty()) {
    const std::ptrdiff_t count = receive_some(bytes);
    if (count < 0) fail_to_send_or_receive();
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    if (count == 0 && !wait_for(descriptor_, POLLIN, deadline)) fail_to_send_or_receive();
  }
}

Socket connect_to(const HostPort& address, Deadline deadline) {
  const AddressList list = look_up(address, SOCK_STREAM);
  int problem = 0;
  for (const addrinfo* at = list.get(); at != nullptr; at = at->ai_next) {
    Socket socket = try_to_connect(*at, deadline);
    if (socket) return socket;
    problem = errno;
  }
  throw SystemError(concat("cannot connect to ", address.text(), ": ", std::strerror(problem),
                           "; the processes of a job must reach each other over TCP"));
}

Listener::Listener(const HostPort& master) {
  sockaddr_storage own = own_address(master);
  const bool local = is_loopback(own);
  // Whoever resolves its own name to the loopback is where the master is: others know that name.
  address_.host = local ? master.host : numeric(own);
  const bool named = local && master.host != "localhost" && !master.host.starts_with("127.") &&
                     master.host != "::1";
  auto& four = reinterpret_cast<sockaddr_in&>(own);
  auto& six = reinterpret_cast<sockaddr_in6&>(own);
  if (own.ss_family == AF_INET) {
    four.sin_port = 0;
    if (named) four.sin_addr.s_addr = htonl(INADDR_ANY);
  } else {
    six.sin6_port = 0;
    if (named) six.sin6_addr = in6addr_any;
  }
  socket_ = new_socket(own.ss_family, SOCK_STREAM);
  set_options(socket_.descriptor());
  socklen_t size = own.ss_family == AF_INET ? sizeof four : sizeof six;
  auto* address = reinterpret_cast<sockaddr*>(&own);
  if (::bind(socket_.descriptor(), address, size) != 0 ||
      ::listen(socket_.descriptor(), SOMAXCONN) != 0 ||
      ::getsockname(socket_.descriptor(), address, &size) != 0) {
    throw SystemError(concat("cannot listen for the other processes: ", std::strerror(errno)));
  }
  address_.port = ntohs(own.ss_family == AF_INET ? four.sin_port : six.sin6_port);
}

Socket Listener::accept(Deadline deadline) const {
  for (;;) {
    Socket socket(::accept4(socket_.descriptor(), nullptr, nullptr, SOCK_CLOEXEC));
    if (socket) {
      set_options(socket.descriptor());
      return socket;
    }
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
      throw SystemError(concat("cannot accept a connection: ", std::strerror(errno)));
    }
    if (!wait_for(socket_.descriptor(), POLLIN, deadline)) {
      throw SystemError(concat("a process of this job has not connected to ", address_.text(),
                               "; see what it said, and whether the network lets it through"));
    }
  }
}

}  // namespace coldframe
