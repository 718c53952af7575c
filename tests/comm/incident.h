// Incident: what goes wrong in this process at a moment of chance.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>

namespace kaon::ranks_test {

inline int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

// A line in a file of its own, by one system call.
inline void write_line(const std::filesystem::path& file, const std::string& text) {
  const int out = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  const std::string line = text + "\n";
  if (out < 0 || ::write(out, line.data(), line.size()) != ssize_t(line.size())) std::abort();
  ::close(out);
}

class Incident {
 public:
  // kind: see begin(). `file` gets the process and the time of it.
  Incident(std::string kind, std::filesystem::path file) : kind_(std::move(kind)), file_(std::move(file)) {}

  // From another thread, when the program has come to the step and the time has passed. Step -1: at once.
  void begin_after(int step, std::chrono::microseconds time) {
    std::thread([this, step, time] {
      for (int at = step_; at < step; at = step_) step_.wait(at);
      std::this_thread::sleep_for(time);
      begin();
    }).detach();
  }
  void note_step(int step) {
    step_ = step;
    step_.notify_all();
  }

  // Of kind throw and abort, where the program comes by: throws.
  void come_by() {
    if (!is_asked_ || (kind_ != "throw" && kind_ != "abort")) return;
    note();
    if (kind_ == "abort") std::terminate();
    throw std::runtime_error("the program has thrown");
  }
  // Of kind operation, once: whether the next operation is to fail.
  bool is_operation_to_fail() {
    if (kind_ != "operation" || !is_asked_.exchange(false)) return false;
    note();
    return true;
  }

  // All that lead to other ranks, and the sockets that listen for them: once OpenMPI's own has been shut down, its next
  // look at a call never returns. reset: both sides read an end. cut: nothing arrives any more, and nobody is told; the
  // socket sends a byte a second, and drops what comes in, acknowledgements too.
  static void break_connections(bool in_silence) {
    for (int fd = 3; fd < 1024; ++fd) {
      int type = 0;
      sockaddr_storage own{};
      socklen_t length = sizeof type;
      if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) != 0 || type != SOCK_STREAM) continue;
      length = sizeof own;
      if (getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) != 0) continue;
      if ((own.ss_family != AF_INET && own.ss_family != AF_INET6) || leads_to_launcher(fd)) continue;
      if (!in_silence) {
        ::shutdown(fd, SHUT_RDWR);
        continue;
      }
      sock_filter drop_all[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
      const sock_fprog program{1, drop_all};
      const unsigned bytes_a_second = 1;
      if (setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &bytes_a_second, sizeof bytes_a_second) != 0 ||
          setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) != 0) {
        std::abort();
      }
    }
  }

 private:
  void note() const { write_line(file_, fmt::format("{} {}", getpid(), now_ns())); }

  void begin() {
    if (kind_ == "kill" || kind_ == "stop") {
      note();
      ::kill(getpid(), kind_ == "kill" ? SIGKILL : SIGSTOP);
    } else if (kind_ == "reset" || kind_ == "cut") {
      note();
      break_connections(kind_ == "cut");
    } else {
      is_asked_ = true;
    }
  }

  // MPI's own daemon is on this machine: a network that breaks does not part them.
  static bool leads_to_launcher(int fd) {
    sockaddr_in peer{};
    socklen_t length = sizeof peer;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) != 0 || peer.sin_family != AF_INET) return false;
    for (const char* name : {"PMIX_SERVER_URI2", "PMIX_SERVER_URI21", "PMIX_SERVER_URI3"}) {
      const char* uri = std::getenv(name);
      if (uri && std::string(uri).ends_with(fmt::format(":{}", ntohs(peer.sin_port)))) return true;
    }
    return false;
  }

  const std::string kind_;
  const std::filesystem::path file_;
  std::atomic<bool> is_asked_{false};
  std::atomic<int> step_{-1};
};

}  // namespace kaon::ranks_test
