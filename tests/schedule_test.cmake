# The quick part of the suites, some seconds of it, in the legal orders of the seeds FIRST to LAST. PROGRAMS: the folder
# with the test programs.
cmake_minimum_required(VERSION 3.25)

# Left out: what parses files, compares models, starts processes, waits for timers, or brings threads or orders of its
# own.
set(engine "*two million*" "block pool*" "engine: random programs*" "exit:*" "push_task: an engine that ends*"
    "schedule:*" "storage:*" "trace:*" "users row 13:*" "users row 16:*" "users row 17:*" "users row 19:*"
    "users row 37:*" "users row 39:*" "wait: engines that start*")
set(ops "damaged files*" "direct convolution:*" "op table: convolution*" "op table: deconvolution*"
    "op table: large arrays*" "op table: pooling*" "users row 59:*" "winograd:*")
set(graph "autotune:*" "cached graph: an operator with*" "cached graph: more inputs*" "convolution gradients*" "layers:*"
    "packed weights: a plan never*" "symbol: *" "winograd:*")
set(gluon "export: MXNet*" "hybrid: forwards and training steps of ResNet*" "idx:*" "implementations:*" "loader:*"
    "memory: whichever*" "mirror: ResNet*" "mnist:*" "model zoo:*" "training through failures:*" "users row 23:*"
    "users row 36:*" "users row 4*" "users row 9:*")

set(failed "")
foreach(folder engine ops graph gluon)
  set(cases "~[slow]~[async]~[arithmetic]~[symbol_json]")
  foreach(name IN LISTS ${folder})
    string(APPEND cases "~\"${name}\"")
  endforeach()
  foreach(seed RANGE ${FIRST} ${LAST})
    execute_process(COMMAND ${PROGRAMS}/kaon_${folder}_tests --schedule ${seed} ${cases}
                    RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output TIMEOUT 120)
    if(NOT code EQUAL 0)
      list(APPEND failed "kaon_${folder}_tests --schedule ${seed}: ${code}")
      message(STATUS "kaon_${folder}_tests --schedule ${seed}: ${code}\n${output}")
    endif()
  endforeach()
endforeach()
if(failed)
  list(JOIN failed "\n  " failed)
  message(FATAL_ERROR "failed:\n  ${failed}")
endif()
