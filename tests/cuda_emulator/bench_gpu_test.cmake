# cmake -D PROGRAM=bench_gpu -D LIBRARY=libkaon_cuda_emulated.so -P bench_gpu_test.cmake: every part of bench_gpu runs on
# the emulator and prints its lines; without a GPU it says so. The figures are not looked at.
execute_process(COMMAND ${CMAKE_COMMAND} -E env KAON_CUDA_LIBRARY=${LIBRARY} ${PROGRAM} --small
                RESULT_VARIABLE result OUTPUT_VARIABLE lines ERROR_VARIABLE errors)
message("${lines}${errors}")
if(NOT result EQUAL 0)
  message(FATAL_ERROR "bench_gpu --small ended with ${result}")
endif()

set(nets "")
foreach(type float32 tf32 bfloat16)
  foreach(way inference_imperative inference_hybridized inference_static_alloc training_imperative training_hybridized
              training_static_alloc training_static_alloc_one_submission)
    list(APPEND nets bottleneck_b2_${type}_${way})
  endforeach()
endforeach()
foreach(name matmul_64_float32 matmul_64_tf32 matmul_64_bfloat16
        device_copy_10000 add_10000 chain20_10000_hybridized chain20_10000_imperative
        ${nets} mlp_b1_imperative mlp_b1_static_alloc mlp_b1_imperative_each_waited_for mlp_b1_static_alloc_each_waited_for
        copies_to_gpu copies_to_gpu_products_alone copies_to_gpu_and_products
        copies_to_host copies_to_host_products_alone copies_to_host_and_products
        add_16_in_a_chain_cpu add_16_in_a_chain_gpu)
  if(NOT lines MATCHES "{\"name\": \"${name}\", \"median\": [0-9.e+-]+, [^\n]*\"gpu\": \"[^\"\n]+\"}\n")
    message(SEND_ERROR "bench_gpu --small prints no line ${name}")
  endif()
endforeach()

execute_process(COMMAND ${CMAKE_COMMAND} -E env KAON_CUDA_LIBRARY=/nowhere.so ${PROGRAM}
                RESULT_VARIABLE result OUTPUT_VARIABLE lines ERROR_VARIABLE errors)
if(NOT result EQUAL 0 OR NOT lines MATCHES "^{\"name\": \"gpu\", \"skipped\": \"[^\n]*nowhere.so[^\n]*\"}\n$"
   OR NOT errors MATCHES "no GPU")
  message(SEND_ERROR "bench_gpu without a GPU ended with ${result} and said: ${lines}${errors}")
endif()
