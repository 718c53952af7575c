// MXProfile*, MXSetProcessProfiler*: MXNet's profiler.
#include <fmt/format.h>

#include "kaon/engine/engine.h"
#include "kaon/engine/error.h"
#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/handle/guard.h"
#include "kaon/mxnet/handle/returned.h"
#include "kaon/mxnet/profiler/reports.h"

using namespace kaon;
using namespace kaon::mxnet;

namespace {

ProfileObject& object_of(ProfileHandle handle) {
  if (!handle) throw ValueError("[profiler] the handle of an object is null");
  return *static_cast<ProfileObject*>(handle);
}

void expect_worker(int process) {
  if (process != 0) throw ValueError("[profiler] Kaon's stores have no servers that could be profiled");
}

int create(ProfileObject::Kind kind, ProfileHandle domain, const char* name, ProfileHandle* out) {
  return guard([&] { *out = new ProfileObject(kind, domain ? object_of(domain).name() : "", name); });
}

}  // namespace

int MXSetProcessProfilerConfig(int num_params, const char* const* keys, const char* const* vals, KVStoreHandle) {
  return guard([&] {
    for (int i = 0; i < num_params; ++i) Profile::get().configure(keys[i], vals[i]);
  });
}

int MXSetProcessProfilerState(int state, int profile_process, KVStoreHandle) {
  return guard([&] {
    expect_worker(profile_process);
    Profile::get().set_running(state != 0);
  });
}

int MXProcessProfilePause(int paused, int profile_process, KVStoreHandle) {
  return guard([&] {
    expect_worker(profile_process);
    Profile::get().set_paused(paused != 0);
  });
}

int MXDumpProcessProfile(int finished, int profile_process, KVStoreHandle) {
  return guard([&] {
    expect_worker(profile_process);
    Profile& profile = Profile::get();
    write_trace(profile.record(), profile.file());
    if (finished) profile.set_running(false);
  });
}

int MXAggregateProfileStatsPrintEx(const char** out_str, int reset, int format, int sort_by, int ascending) {
  return guard([&] {
    if (sort_by < 0 || sort_by > 4) {
      throw ValueError(fmt::format("[profiler] sort_by: expected a number from 0 to 4, got {}", sort_by));
    }
    Profile& profile = Profile::get();
    std::string& text = returned().text;
    text.clear();
    if (profile.aggregates()) {
      text = statistics(profile.record(),
                        {.json = format != 0, .sort = ProfileSort(sort_by), .ascending = ascending != 0});
    }
    if (reset) profile.reset_statistics();
    *out_str = text.c_str();
  });
}

int MXProfileCreateDomain(const char* domain, ProfileHandle* out) {
  return create(ProfileObject::Kind::domain, nullptr, domain, out);
}
int MXProfileCreateTask(ProfileHandle domain, const char* task_name, ProfileHandle* out) {
  return create(ProfileObject::Kind::task, domain, task_name, out);
}
int MXProfileCreateFrame(ProfileHandle domain, const char* frame_name, ProfileHandle* out) {
  return create(ProfileObject::Kind::frame, domain, frame_name, out);
}
int MXProfileCreateEvent(const char* event_name, ProfileHandle* out) {
  return create(ProfileObject::Kind::event, nullptr, event_name, out);
}
int MXProfileCreateCounter(ProfileHandle domain, const char* counter_name, ProfileHandle* out) {
  return create(ProfileObject::Kind::counter, domain, counter_name, out);
}
int MXProfileDestroyHandle(ProfileHandle handle) {
  return guard([&] { delete &object_of(handle); });
}

int MXProfileDurationStart(ProfileHandle handle) {
  return guard([&] { object_of(handle).start(); });
}
int MXProfileDurationStop(ProfileHandle handle) {
  return guard([&] { object_of(handle).stop(); });
}
int MXProfileSetCounter(ProfileHandle handle, uint64_t value) {
  return guard([&] { object_of(handle).set_value(value); });
}
int MXProfileAdjustCounter(ProfileHandle handle, int64_t value) {
  return guard([&] { object_of(handle).adjust(value); });
}

int MXProfileSetMarker(ProfileHandle domain, const char* instant_marker_name, const char*) {
  return guard([&] {
    Profile::get().add({.domain = object_of(domain).name(),
                        .name = engine::intern(instant_marker_name),
                        .time = Profiler::now(),
                        .is_marker = true});
  });
}
