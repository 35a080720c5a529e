# fish completion of nearsh. A script's arguments are files; what follows "annotate" is completed as a command.

function __nearsh_first
    test (count (commandline -opc)) -eq 1
end

function __nearsh_of
    set -l words (commandline -opc)
    test (count $words) -ge 2; and test $words[2] = $argv[1]
end

function __nearsh_script
    set -l words (commandline -opc)
    test (count $words) -lt 2; or not contains -- $words[2] init explain doctor stats annotate agent
end

complete -c nearsh -n '__nearsh_first' -a init -d 'print what a shell evaluates to run typed commands where their files are'
complete -c nearsh -n '__nearsh_first' -a explain -d 'say where a pipeline would run, and why'
complete -c nearsh -n '__nearsh_first' -a doctor -d 'say what is mounted here and what is missing'
complete -c nearsh -n '__nearsh_first' -a stats -d 'tell what ran on other machines lately'
complete -c nearsh -n '__nearsh_first' -a annotate -d 'say where the annotation of a command lies'
complete -c nearsh -n '__nearsh_first' -a agent -d 'serve another machine on standard input and output'

complete -c nearsh -n '__nearsh_script' -l shell -x -a '(__fish_complete_command)' -d 'the shell that runs the script'
complete -c nearsh -n '__nearsh_script' -l quiet -d 'no line about how far a command elsewhere has come'
complete -c nearsh -n '__nearsh_script' -l debug -x -a list -d 'say where each command runs, and why'
complete -c nearsh -n '__nearsh_script' -l help -d 'a short text'
complete -c nearsh -n '__nearsh_script' -l version -d 'which nearsh this is'
complete -c nearsh -n '__nearsh_script' -s c -x -d 'run a text'
complete -c nearsh -n '__nearsh_script' -s s -d 'run what comes on standard input'

complete -c nearsh -n '__nearsh_of init' -f -a 'bash zsh fish sh'
complete -c nearsh -n '__nearsh_of explain' -f -l connect -d 'measure the line first'
complete -c nearsh -n '__nearsh_of explain' -l svg -r -d 'draw it, too'
complete -c nearsh -n '__nearsh_of doctor' -f
complete -c nearsh -n '__nearsh_of stats' -f
complete -c nearsh -n '__nearsh_of annotate' -l annotation -r -d 'an annotation of your own'
complete -c nearsh -n '__nearsh_of annotate' -a '(__fish_complete_subcommand --fcs-skip=2)'
complete -c nearsh -n '__nearsh_of agent' -f -l stdio -d 'speak on standard input and output'
complete -c nearsh -n '__nearsh_of agent' -l restrict-to -x -a '(__fish_complete_directories)' -d 'nothing outside of it'
