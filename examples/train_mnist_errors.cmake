# cmake -D PROGRAM=<train_mnist> -D DIGITS=<folder> -D SCRATCH=<folder> -P train_mnist_errors.cmake: what a user can get
# wrong gives its exit code and a message that says what was expected.
cmake_minimum_required(VERSION 3.25)

file(REMOVE_RECURSE ${SCRATCH})
file(MAKE_DIRECTORY ${SCRATCH})

# expect(code regex arguments...): on stderr, or for code 0 on stdout.
function(expect code regex)
  execute_process(COMMAND ${PROGRAM} ${ARGN} WORKING_DIRECTORY ${SCRATCH}
                  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE errors)
  if(code EQUAL 0)
    set(errors "${output}")
  endif()
  if(NOT result EQUAL code OR NOT errors MATCHES "${regex}")
    message(FATAL_ERROR "train_mnist ${ARGN}: expected exit code ${code} and \"${regex}\", got ${result} and:\n${errors}")
  endif()
endfunction()

expect(0 "usage: train_mnist.*--learning-rate" --help)
expect(2 "unknown option '--epoch'" --epoch 3)
expect(2 "unknown option 'digits'" digits)
expect(2 "--data needs a value" --data)
expect(2 "--epochs: expected a number from 1 to 10000, got 'many'" --epochs many)
expect(2 "--epochs: expected a number from 1 to 10000, got '0'" --epochs=0)
expect(2 "--learning-rate: expected a number.*got 'nan'" --learning-rate nan)
expect(2 "--imperative takes no value" --imperative=yes)
expect(2 "--exact.*--imperative" --exact --imperative)
expect(2 "--batch-size 32 must be a multiple of --ranks 3" --ranks 3)
expect(1 "${SCRATCH}/nowhere: expected a folder with train-images" --data ${SCRATCH}/nowhere)
expect(1 "${SCRATCH}: expected a file train-images-idx3-ubyte" --data ${SCRATCH})

# a file that ends early
file(COPY ${DIGITS}/ DESTINATION ${SCRATCH}/digits)
execute_process(COMMAND head -c 5000 ${DIGITS}/train-images-idx3-ubyte.gz
                OUTPUT_FILE ${SCRATCH}/digits/train-images-idx3-ubyte.gz COMMAND_ERROR_IS_FATAL ANY)
expect(1 "train-images-idx3-ubyte.gz: at byte [0-9]+: expected the elements of shape" --data ${SCRATCH}/digits)

# a file that is something else
file(WRITE ${SCRATCH}/digits/train-images-idx3-ubyte "no digits here")
expect(1 "train-images-idx3-ubyte: at byte 0: expected" --data ${SCRATCH}/digits)

# a folder that cannot be made
file(WRITE ${SCRATCH}/taken "")
expect(1 "${SCRATCH}/taken" --epochs 1 --forwards 0 --out ${SCRATCH}/taken/here)
