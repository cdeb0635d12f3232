// TCP connections between the processes of one job. Every call ends by a deadline; what fails is a
// SystemError that names the other end.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace coldframe {

using Deadline = std::chrono::steady_clock::time_point;

struct HostPort {
  std::string host;
  std::uint16_t port = 0;

  std::string text() const;  // "node2:4711"
};

// A descriptor that closes itself.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();

  int descriptor() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }
  void close();

  void send_all(std::span<const std::byte> bytes, Deadline deadline) const;
  void receive_all(std::span<std::byte> bytes, Deadline deadline) const;

  // Moves as much as goes without waiting: bytes moved, 0 for none yet, -1 when the other end is
  // gone.
  std::ptrdiff_t send_some(std::span<const std::byte> bytes) const;
  std::ptrdiff_t receive_some(std::span<std::byte> bytes) const;

 private:
  int descriptor_ = -1;
};

Socket connect_to(const HostPort& address, Deadline deadline);

// Waits for connections at a port of the system's choice.
class Listener {
 public:
  // On the interfaces by which `master` is reached: the loopback alone when that is this machine's.
  explicit Listener(const HostPort& master);
  const HostPort& address() const { return address_; }  // for other machines
  Socket accept(Deadline deadline) const;

 private:
  Socket socket_;
  HostPort address_;
};

}  // namespace coldframe
