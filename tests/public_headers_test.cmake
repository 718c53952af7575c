# cmake -D ROOT=<repository> -D SCRATCH=<folder> -P public_headers_test.cmake: what programs include.
#   1. kaon.h reaches few headers of few lines, and none that is internal, but for those listed here.
#   2. What is listed here as internal and reached, is.
#   3. The headers that programs may include beside kaon.h are public, and kaon.h does not bring them.
#   4. Headers that these reach are there, so that an installed copy is complete.
# The same function looks at a small tree that breaks each rule, and must find that.
cmake_minimum_required(VERSION 3.25)
include(${ROOT}/cmake/KaonPublicHeaders.cmake)

set(max_headers 80)
set(max_lines 11500)
# Internal headers that public ones still include. A public header declares what it needs of a room; this list is to
# become empty.
set(reached_by_kaon
    engine/base/coroutine_queue.h engine/base/process_wide.h engine/base/spin_lock.h engine/buffer/buffer.h
    engine/memory/block_pool.h engine/memory/memory_budget.h engine/scheduler/op_node.h
    engine/scheduler/shared_read_lease.h engine/scheduler/turn.h engine/scheduler/var.h graph/ir/graph.h
    graph/memory/memory_plan.h graph/memory/plan_arenas.h graph/plan/difference.h graph/plan/execution_plan.h
    graph/plan/plan_capture.h graph/plan/verify.h ops/operator/op_attributes.h)
set(optional_reached_by_these ops/op_def.h)
set(reached_by_optional
    engine/buffer/gpu_memory.h engine/device/backend.h engine/device/gpu.h engine/device/pinned_memory.h
    engine/device/stream.h engine/device/stream_completions.h engine/device/stream_order.h engine/device/stream_pool.h)

# What is against the rules in the tree at `root`.
function(look_at root result)
  set(complaints "")

  kaon_follow_includes(${root} headers kaon.h)
  set(missing ${headers_missing})
  set(count 0)
  set(lines 0)
  set(internal "")
  foreach(header IN LISTS headers)
    if(header IN_LIST missing)
      continue()
    endif()
    file(READ ${root}/${header} text)
    string(REGEX REPLACE "[^\n]" "" newlines "${text}")
    string(LENGTH "${newlines}" more)
    math(EXPR lines "${lines} + ${more}")
    kaon_is_public(${header} is_public)
    if(is_public)
      math(EXPR count "${count} + 1")
    else()
      list(APPEND internal ${header})
    endif()
  endforeach()
  if(count GREATER max_headers)
    list(APPEND complaints "kaon.h reaches ${count} public headers, more than ${max_headers}")
  endif()
  if(lines GREATER max_lines)
    list(APPEND complaints "kaon.h reaches ${lines} lines, more than ${max_lines}")
  endif()
  foreach(header IN LISTS internal)
    if(NOT header IN_LIST reached_by_kaon)
      list(APPEND complaints "kaon.h reaches ${header}, which is internal")
    endif()
  endforeach()
  foreach(header IN LISTS reached_by_kaon)
    if(NOT header IN_LIST internal)
      list(APPEND complaints "${header} is listed in this test, but kaon.h does not reach it any more")
    endif()
  endforeach()

  foreach(header IN LISTS KAON_OPTIONAL_HEADERS)
    kaon_is_public(${header} is_public)
    if(NOT is_public)
      list(APPEND complaints "${header} is optional, but it is internal")
    endif()
    if(header IN_LIST headers AND NOT header IN_LIST optional_reached_by_these)
      list(APPEND complaints "${header} is optional, but kaon.h brings it")
    elseif(header IN_LIST optional_reached_by_these AND NOT header IN_LIST headers)
      list(APPEND complaints "${header} is listed in this test, but kaon.h does not bring it any more")
    endif()
  endforeach()
  kaon_follow_includes(${root} more ${KAON_OPTIONAL_HEADERS})
  list(APPEND missing ${more_missing})
  list(REMOVE_ITEM more ${headers})
  foreach(header IN LISTS more)
    kaon_is_public(${header} is_public)
    if(NOT is_public AND NOT header IN_LIST reached_by_optional AND NOT header IN_LIST KAON_OPTIONAL_HEADERS)
      list(APPEND complaints "an optional header reaches ${header}, which is internal")
    endif()
  endforeach()
  foreach(header IN LISTS reached_by_optional)
    if(NOT header IN_LIST more)
      list(APPEND complaints "${header} is listed in this test, but no optional header alone reaches it any more")
    endif()
  endforeach()

  list(REMOVE_DUPLICATES missing)
  foreach(header IN LISTS missing)
    list(APPEND complaints "${header} is included, but not there")
  endforeach()
  set(${result} "${complaints}" PARENT_SCOPE)
endfunction()

# A tree that breaks each rule, and how the complaints about it begin.
function(look_at_sample)
  set(sample ${SCRATCH}/public_headers_sample)
  file(REMOVE_RECURSE ${sample})
  set(reached_by_kaon engine/room/known.h engine/room/gone.h)
  set(reached_by_optional engine/room/other.h engine/room/ended.h)
  set(optional_reached_by_these engine/error.h asio.h)
  set(KAON_OPTIONAL_HEADERS asio.h engine/engine.h engine/error.h engine/room/optional.h)
  set(max_headers 5)
  set(max_lines 10)
  file(WRITE ${sample}/kaon.h "#include \"kaon/engine/engine.h\"\n#include <kaon/ops/family/family.h>\n"
                              "#include \"kaon/gluon/nn/dense.h\"\n#  include \"kaon/gluon/data/internal/a.h\"\n")
  file(WRITE ${sample}/engine/engine.h "#include \"kaon/engine/room/known.h\"\n#include \"kaon/engine/room/a.h\"\n")
  file(WRITE ${sample}/engine/room/known.h "#include \"kaon/engine/error.h\"\n#include <vector>\n")
  file(WRITE ${sample}/engine/room/a.h "#include \"kaon/engine/engine.h\"\n")
  file(WRITE ${sample}/engine/error.h "")
  file(WRITE ${sample}/ops/family/family.h "#include \"kaon/ops/family/operator.h\"\n")
  file(WRITE ${sample}/ops/family/operator.h "#include \"kaon/ops/op.h\"\n")
  file(WRITE ${sample}/ops/op.h "#include \"kaon/ops/nowhere.h\"\n")
  file(WRITE ${sample}/gluon/nn/dense.h "")
  file(WRITE ${sample}/gluon/data/internal/a.h "")
  file(WRITE ${sample}/asio.h "#include \"kaon/engine/room/other.h\"\n#include \"kaon/engine/room/new.h\"\n")
  file(WRITE ${sample}/engine/room/other.h "")
  file(WRITE ${sample}/engine/room/new.h "")
  file(WRITE ${sample}/engine/room/optional.h "")
  look_at(${sample} found)
  file(REMOVE_RECURSE ${sample})
  set(expected
    "kaon.h reaches 6 public headers, more than 5" "kaon.h reaches 12 lines, more than 10"
    "kaon.h reaches engine/room/a.h, which is internal" "kaon.h reaches ops/family/operator.h, which is internal"
    "kaon.h reaches gluon/data/internal/a.h, which is internal"
    "engine/room/gone.h is listed in this test, but kaon.h" "engine/room/optional.h is optional, but it is internal"
    "engine/engine.h is optional, but kaon.h brings it" "asio.h is listed in this test, but kaon.h does not bring it"
    "an optional header reaches engine/room/new.h, which is internal"
    "engine/room/ended.h is listed in this test, but no optional header" "ops/nowhere.h is included, but not there")
  set(unseen ${expected})
  foreach(complaint IN LISTS expected)
    foreach(one IN LISTS found)
      string(FIND "${one}" "${complaint}" at)
      if(at EQUAL 0)
        list(REMOVE_ITEM unseen "${complaint}")
      endif()
    endforeach()
  endforeach()
  list(LENGTH expected wanted)
  list(LENGTH found count)
  if(unseen OR NOT count EQUAL wanted)
    list(JOIN found "\n  " text)
    message(FATAL_ERROR "This check is broken: it does not find \"${unseen}\", or finds more than that:\n  ${text}")
  endif()
endfunction()
look_at_sample()

look_at(${ROOT} complaints)
if(complaints)
  list(JOIN complaints "\n  " text)
  message(FATAL_ERROR "What programs include:\n  ${text}")
endif()
