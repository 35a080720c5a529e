# bash completion of nearsh. A script's arguments are files; what follows "annotate" is completed as a call of that command.

_nearsh() {
    local word=${COMP_WORDS[COMP_CWORD]} first=${COMP_WORDS[1]} at
    COMPREPLY=()
    # bash parts words at "=", too.
    if [[ $word == = ]]; then
        word='' at=$((COMP_CWORD - 1))
    elif ((COMP_CWORD > 1)) && [[ ${COMP_WORDS[COMP_CWORD - 1]} == = ]]; then
        at=$((COMP_CWORD - 2))
    fi
    case ${at:+${COMP_WORDS[at]}} in
    --debug)
        mapfile -t COMPREPLY < <(compgen -W list -- "$word")
        return
        ;;
    --shell)
        mapfile -t COMPREPLY < <(compgen -c -- "$word")
        return
        ;;
    --svg | --annotation)
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return
        ;;
    esac
    if ((COMP_CWORD > 1)); then
        case $first in
        init)
            ((COMP_CWORD > 2)) || mapfile -t COMPREPLY < <(compgen -W 'bash zsh fish sh' -- "$word")
            return
            ;;
        explain)
            [[ $word != -* ]] || _nearsh_words '--connect --svg='
            return
            ;;
        annotate)
            if [[ $word == -* && COMP_CWORD -eq 2 ]]; then
                _nearsh_words '--annotation='
            elif ((COMP_CWORD == 2)) || [[ ${COMP_WORDS[2]} == --annotation && COMP_CWORD -eq 5 ]]; then
                mapfile -t COMPREPLY < <(compgen -c -- "$word")
            else
                compopt -o default
            fi
            return
            ;;
        agent)
            if [[ ${COMP_WORDS[COMP_CWORD - 1]} == --restrict-to ]]; then
                compopt -o filenames
                mapfile -t COMPREPLY < <(compgen -d -- "$word")
            else
                _nearsh_words '--stdio --restrict-to'
            fi
            return
            ;;
        doctor | stats) return ;;
        esac
    fi
    # Options of nearsh stand before the script's name, and what follows that is the script's.
    local before=${COMP_WORDS[COMP_CWORD - 1]}
    case $word in
    -*) _nearsh_words '--shell= --quiet --debug=list --help --version -c -s' ;;
    *)
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        if ((COMP_CWORD == 1)); then
            local commands
            mapfile -t commands < <(compgen -W 'init explain doctor stats annotate agent' -- "$word")
            COMPREPLY+=("${commands[@]}")
        elif [[ $before == -c ]]; then
            COMPREPLY=()
        fi
        ;;
    esac
}

# Words that begin as the one that is typed; behind "=" more is to come.
_nearsh_words() {
    mapfile -t COMPREPLY < <(compgen -W "$1" -- "$word")
    if ((${#COMPREPLY[@]} == 1)) && [[ ${COMPREPLY[0]} == *= ]]; then
        compopt -o nospace
    fi
}

complete -F _nearsh nearsh
