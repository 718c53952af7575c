// Profile: what MXNet's profiler has recorded, on the engine's timeline, and the objects that programs record with.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "kaon/engine/profiler.h"
#include "kaon/mxnet/handle/handle.h"

namespace kaon::mxnet {

// A value of a counter, or a marker, at a time of Profiler::now().
struct ProfileSample {
  const char* domain;  // interned, as the name
  const char* name;
  uint64_t time = 0;
  uint64_t value = 0;
  bool is_marker = false;
};

// Everything up to now, in the order of time.
struct ProfileRecord {
  std::vector<Profiler::Event> events;
  std::vector<ProfileSample> samples;
  uint64_t dropped = 0;  // events for which there was no room
  uint64_t reset = 0;    // statistics are of what began after this time
};

// Of the process. Thread safety: any thread.
class Profile {
 public:
  static Profile& get();

  // Throws ValueError for a key that MXNet does not have and for a text of another form.
  void configure(std::string_view key, std::string_view text);
  void set_running(bool running);
  void set_paused(bool paused);
  bool is_on() const;
  bool aggregates() const;  // whether statistics were asked for

  void add(const ProfileSample& sample);
  ProfileRecord record() const;
  void reset_statistics();  // the trace goes on
  std::string file() const;

 private:
  static constexpr size_t most_kept = 1 << 20;  // events; older ones go
  void update(bool on);                         // the engine's profiler
  void keep();                                  // what that has, before it begins anew

  mutable std::mutex mutex_;
  std::string file_ = "profile.json";
  bool aggregates_ = false, is_running_ = false, is_paused_ = false, is_on_ = false;
  std::vector<Profiler::Event> kept_;
  uint64_t dropped_ = 0, reset_ = 0;
  std::vector<ProfileSample> samples_;
};

// What a handle stands for. Destroyed by the function for all kinds; a domain stays for the process.
class ProfileObject : public Counted<ProfileObject> {
 public:
  enum class Kind : uint8_t { domain, task, frame, event, counter };
  ProfileObject(Kind kind, std::string_view domain, std::string_view name);

  Kind kind() const { return kind_; }
  const char* name() const { return name_; }
  // Of a task, a frame or an event. Thread safety: one thread. Throw ValueError for other kinds.
  void start();
  void stop();  // records the time since start()
  // Of a counter; ValueError for other kinds. Thread safety: any thread.
  void set_value(uint64_t value);
  void adjust(int64_t by);

 private:
  void expect(bool fits, const char* what) const;

  const Kind kind_;
  const char* const domain_;
  const char* const name_;
  uint64_t begin_ = 0;
  std::atomic<uint64_t> value_{0};
};

}  // namespace kaon::mxnet
