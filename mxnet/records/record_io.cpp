// MXRecordIO*: files of records.
#include "kaon/gluon/data/record_io.h"

#include "kaon/engine/error.h"
#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/handle/guard.h"
#include "kaon/mxnet/handle/handle.h"

using namespace kaon;
using namespace kaon::mxnet;

namespace {

struct RecordObject : Counted<RecordObject> {
  RecordObject(const char* file, const char* flag) : io(file, flag) {}
  recordio::MXRecordIO io;
  std::string record;  // the last that was read
};

RecordObject& record_of(RecordIOHandle handle) {
  if (!handle) throw ValueError("the handle of a file of records is null");
  return *static_cast<RecordObject*>(handle);
}

int free_record(RecordIOHandle handle) {
  return guard([&] {
    const std::unique_ptr<RecordObject> record(&record_of(handle));
    record->io.close();  // says what the destructor cannot
  });
}

}  // namespace

int MXRecordIOWriterCreate(const char* uri, RecordIOHandle* out) {
  return guard([&] { *out = new RecordObject(uri, "w"); });
}
int MXRecordIOReaderCreate(const char* uri, RecordIOHandle* out) {
  return guard([&] { *out = new RecordObject(uri, "r"); });
}
int MXRecordIOWriterFree(RecordIOHandle handle) { return free_record(handle); }
int MXRecordIOReaderFree(RecordIOHandle handle) { return free_record(handle); }

int MXRecordIOWriterWriteRecord(RecordIOHandle handle, const char* buf, size_t size) {
  return guard([&] { record_of(handle).io.write({buf, size}); });
}
int MXRecordIOWriterTell(RecordIOHandle handle, size_t* pos) {
  return guard([&] { *pos = record_of(handle).io.tell(); });
}

// A null buffer of 0 bytes at the end. An empty record has an address.
int MXRecordIOReaderReadRecord(RecordIOHandle handle, const char** buf, size_t* size) {
  return guard([&] {
    RecordObject& object = record_of(handle);
    std::optional<std::string> record = object.io.read();
    *buf = nullptr;
    *size = 0;
    if (!record) return;
    object.record = std::move(*record);
    *buf = object.record.data();
    *size = object.record.size();
  });
}
int MXRecordIOReaderSeek(RecordIOHandle handle, size_t pos) {
  return guard([&] { record_of(handle).io.seek_to(pos); });
}
